/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported names of a library that replaces a vendor's: each is one indirect jump.
 *
 * Owns: a slot per name. At first it points to a stub that saves the arguments and asks facet_forward_target() for the
 * target. From then on it points to that target, like an entry of the program's own linkage table.
 * Never: interprets arguments or results; opens anything before the first call.
 *
 * A library that uses these jumps compiles forward.S and forward.c with the header that forward.py makes of its list of
 * names (forward_names.h), and defines facet_forward_target(). It is linked with the version script that forward.py
 * makes, which exports the names, and the symbol facet_interposer by which real.c recognises our libraries.
 */
#ifndef FACET_INTERPOSE_FORWARD_H
#define FACET_INTERPOSE_FORWARD_H

#include <stdint.h>

/*
 * The target of an exported name: a hook, the vendor's own function, or a function that returns an error. Never NULL.
 * Runs when a name is called for the first time, perhaps in several threads at once, and never in a constructor.
 */
void *facet_forward_target(const char *name);

/* The names, in the list's order. */
extern const char *const facet_forward_names[];
extern const uint32_t facet_forward_count;

/* Called by the stub: finds the target, stores it in the slot, and returns it for the jump. */
void *facet_forward_bind(uint32_t index);

/* Marks a library as ours, and has counters for tests and debuggers, because the library prints nothing. */
struct facet_interposer {
    char name[8]; /* "Facet" */
    /* Lookups that returned an unknown form of a hooked name, newer than our list of hooks. */
    _Atomic uint64_t unknown_forms;
};
__attribute__((visibility("default"))) extern struct facet_interposer facet_interposer;

#endif
