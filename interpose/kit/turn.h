/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is to look at what is in flight: the helper's, or a program's thread that has just waited for some of
 * it and reports it before it goes on.
 *
 * Owns: a lock that is never waited for without end.
 * Never: keeps a program waiting for a driver: who has the turn calls one, and the driver may call the program.
 */
#ifndef FACET_INTERPOSE_TURN_H
#define FACET_INTERPOSE_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct facet_turn {
    _Atomic uint32_t word;   /* futex word: free, taken, or taken and waited for */
    _Atomic uintptr_t owner; /* the thread that has it */
};

/* False when it was not to be had for so long, and at once for the thread that has it already. */
bool facet_turn_take(struct facet_turn *turn, uint64_t most_ns);
void facet_turn_end(struct facet_turn *turn);

/* In the child of fork(): nobody has it. */
void facet_turn_forked(struct facet_turn *turn);

#endif
