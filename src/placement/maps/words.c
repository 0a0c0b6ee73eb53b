/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the names of kinds, strategies, refusals and modes. Never: fails on an unknown value: its name is NULL. */
#include <stddef.h>

#include <facet/allocation.h>

#define NAME_OF(names, value) ((value) < sizeof(names) / sizeof(names)[0] ? (names)[value] : NULL)

const char *facet_map_kind_name(uint32_t kind)
{
    static const char *const names[] = {"discrete", "fraction"};

    return NAME_OF(names, kind);
}

const char *facet_map_strategy_name(uint32_t strategy)
{
    static const char *const names[] = {"evenly", "fill"};

    return NAME_OF(names, strategy);
}

const char *facet_refusal_name(uint32_t reason)
{
    static const char *const names[] = {"not", "slot", "amount", "quantum", "exclusive", "short", "fragmented"};

    return NAME_OF(names, reason);
}

const char *facet_agents_mode_name(uint32_t mode)
{
    static const char *const names[] = {"shared", "auto-split", "manual"};

    return NAME_OF(names, mode);
}
