/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported names of a library that stands in for a vendor's: each is one indirect jump.
 *
 * Owns: a slot per name. At first it leads to a stub that keeps the arguments and asks facet_forward_target() where the
 * name leads; from then on the call goes there, as through the program's own linkage table.
 * Never: knows what a function takes or returns; opens anything before the first call.
 *
 * A library that uses it gives forward.py's header of its list (forward_names.h) to forward.S and forward.c, and
 * defines facet_forward_target(). It also exports what the version script of forward.py names, the mark included, by
 * which real.h knows a copy of ours.
 */
#ifndef FACET_INTERPOSE_FORWARD_H
#define FACET_INTERPOSE_FORWARD_H

#include <stdint.h>

/*
 * Where an exported name leads from now on: a hook, the vendor's own function, or one that says why there is none.
 * Never NULL. Asked once a name, by the thread that calls it first, or by two of them; not in a constructor.
 */
void *facet_forward_target(const char *name);

/* The names, in the list's order. */
extern const char *const facet_forward_names[];
extern const uint32_t facet_forward_count;

/* The stub's: finds the target, keeps it in the slot, and returns it to be jumped to. */
void *facet_forward_bind(uint32_t index);

/* The mark, and what a test or a debugger may want to read of a library that says nothing. */
struct facet_interposer {
    char name[8]; /* "Facet" */
    /* Lookups whose answer passed through though it is a form of a hooked name: one newer than our list of hooks. */
    _Atomic uint64_t unknown_forms;
};
__attribute__((visibility("default"))) extern struct facet_interposer facet_interposer;

#endif
