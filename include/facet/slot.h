/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots, the named resources that orchestrators count, and amounts of them.
 *
 * Owns: the types of slots; amounts, which are whole micro-units (1,000,000 = 1), and their exact text.
 * Never: rounds, or goes through floating point.
 *
 * Thread rule: pure; any thread. Source: Backend.AI's slots; its database keeps six decimals.
 */
#ifndef FACET_SLOT_H
#define FACET_SLOT_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

enum facet_slot_type {
    FACET_SLOT_COUNT = 0,
    FACET_SLOT_BYTES = 1,
    FACET_SLOT_UNIQUE = 2,  /* a request gets exactly 1 */
    FACET_SLOT_UNIFIED = 3, /* attached to every workload, so it is neither requested nor granted */
};

FACET_API const char *facet_slot_type_name(uint32_t type); /* "count"; NULL when unknown */

#define FACET_AMOUNT_ONE  INT64_C(1000000)
#define FACET_AMOUNT_SIZE 24u /* bytes that any amount needs as text */

/*
 * Parses "1.5", "0.000001" or "2E+3" exactly. FACET_INVALID_ARGUMENT: not a decimal number. FACET_OUT_OF_RANGE:
 * negative, finer than a micro-unit, or above INT64_MAX micro-units (9,223,372,036,854.775807; in bytes 8.3 TiB).
 * `argument` is the name of the amount in errors.
 */
FACET_API enum facet_status facet_amount_parse(const char *text, const char *argument, int64_t *ret_amount,
                                               struct facet_error *error);

/*
 * The shortest exact form: "0.5", "-0.03", "12". `buffer` has `size` bytes, FACET_AMOUNT_SIZE are enough; returns it.
 */
FACET_API char *facet_amount_format(int64_t amount, char *buffer, size_t size);
/* As facet_amount_format(), with at least `places` decimals, of which there are 6 at most: "1.50". */
FACET_API char *facet_amount_format_places(int64_t amount, uint32_t places, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
