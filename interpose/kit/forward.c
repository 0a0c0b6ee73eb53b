/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: filling the slots. Never: holds a lock: two threads that fill a slot at once write the same target. */
#include "forward.h"

#include <errno.h>
#include <stdatomic.h>

const char *const facet_forward_names[] = {
#define FORWARD(index, name) [index] = #name,
#include "forward_names.h"
#undef FORWARD
};
const uint32_t facet_forward_count = sizeof facet_forward_names / sizeof facet_forward_names[0];

struct facet_interposer facet_interposer = {.name = "Facet"};

extern _Atomic(void *) facet_forward_slots[]; /* forward.S */

void *facet_forward_bind(uint32_t index)
{
    int saved = errno;
    void *target = facet_forward_target(facet_forward_names[index]);

    atomic_store_explicit(&facet_forward_slots[index], target, memory_order_release);
    errno = saved;
    return target;
}
