/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel compiler's shared object: found at once, opened late.
 *
 * Owns: its path, its identity (found without opening it), and opening it once in a process.
 * Never: closes it: LLVM does not take being unloaded.
 */
#ifndef FACET_KERNEL_PLUGIN_H
#define FACET_KERNEL_PLUGIN_H

#include <xxhash.h>

#include "kernel/backend.h"

/*
 * Identifies this compiler among all others, by the state of files alone: the object, the libraries of built-in
 * functions beside it, and the loader's list of libraries, which changes whenever an LLVM is installed.
 * FACET_UNSUPPORTED: there is no compiler; the error names the package to install.
 */
enum facet_status facet_plugin_identify(XXH128_hash_t *ret_identity, struct facet_error *error);

/* Opens it; a second time gives the same. Any thread. */
enum facet_status facet_plugin_open(const struct facet_backend **ret_backend, struct facet_error *error);

#endif
