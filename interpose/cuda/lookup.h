/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the hook of a driver function.
 *
 * Owns: hooks by exported symbol, and by the address that the driver answers. An unknown form of a hooked name comes
 * from a driver newer than our list; it passes through and is counted (facet_interposer.unknown_forms).
 * Never: takes one form of a function for another: forms of one name differ in their arguments.
 */
#ifndef FACET_CUDA_LOOKUP_H
#define FACET_CUDA_LOOKUP_H

/* The hook of an exported symbol; NULL when it has none. */
void *facet_cuda_hook(const char *symbol);

/*
 * Called once, when the driver has been opened. Asks the driver for each hook's form, by name, version and default
 * stream, because some drivers answer with functions that they do not export.
 */
void facet_cuda_lookup_learn(void);

#endif
