/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported names of a library that replaces a vendor's: each is one indirect jump.
 *
 * Owns: a slot per name. At first it points to a stub that saves the arguments and calls facet_forward_target() for the
 * target. From then on calls go directly there, as through the program's own linkage table.
 * Never: interprets arguments or results; opens anything before the first call.
 *
 * A library that uses it includes forward.py's header of its list (forward_names.h) in forward.S and forward.c, and
 * defines facet_forward_target(). It also exports the names in the version script of forward.py, with the mark by which
 * real.h recognises our libraries.
 */
#ifndef FACET_INTERPOSE_FORWARD_H
#define FACET_INTERPOSE_FORWARD_H

#include <stdint.h>

/*
 * The target of an exported name: a hook, the vendor's own function, or a function that returns an error. Never NULL.
 * Called once a name, by the first thread that calls it, or by two at once; not in a constructor.
 */
void *facet_forward_target(const char *name);

/* The names, in the list's order. */
extern const char *const facet_forward_names[];
extern const uint32_t facet_forward_count;

/* Called by the stub: finds the target, stores it in the slot, and returns it for the jump. */
void *facet_forward_bind(uint32_t index);

/* The mark, and counters for tests and debuggers, because the library prints nothing. */
struct facet_interposer {
    char name[8]; /* "Facet" */
    /* Lookups that passed through an unknown form of a hooked name: a newer one than our list of hooks has. */
    _Atomic uint64_t unknown_forms;
};
__attribute__((visibility("default"))) extern struct facet_interposer facet_interposer;

#endif
