/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the driver's functions have a hook.
 *
 * Owns: hooks by exported symbol, and by the address that the driver answers. A form of a hooked name that we do not
 * know passes through and is counted (facet_interposer.unknown_forms): it is what a driver newer than our list has.
 * Never: takes one form of a function for another: a name alone says nothing of what it takes.
 */
#ifndef FACET_CUDA_LOOKUP_H
#define FACET_CUDA_LOOKUP_H

/* The hook of an exported symbol; NULL when it has none. */
void *facet_cuda_hook(const char *symbol);

/*
 * Once, when the driver has been opened: asks its lookup for each hook's form, by name, version and default stream.
 * Some drivers answer with functions that are none of those they export.
 */
void facet_cuda_lookup_learn(void);

#endif
