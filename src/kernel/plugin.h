/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel compiler's shared object, which is found without opening it, and opened only for a compile.
 *
 * Owns: its path, its identity (found without opening it), and opening it once in a process.
 * Never: closes it, since LLVM cannot be unloaded.
 */
#ifndef FACET_KERNEL_PLUGIN_H
#define FACET_KERNEL_PLUGIN_H

#include <xxhash.h>

#include "kernel/backend.h"

/*
 * Identifies this compiler among all others by the attributes of files only: the shared object, the libraries of
 * built-in functions in its folder, and the loader's cache of libraries, which changes whenever an LLVM is installed.
 * FACET_UNSUPPORTED: there is no compiler; the error names the package to install.
 */
enum facet_status facet_plugin_identify(XXH128_hash_t *ret_identity, struct facet_error *error);

/* Opens the compiler, or returns the one that is open. Any thread. */
enum facet_status facet_plugin_open(const struct facet_backend **ret_backend, struct facet_error *error);

#endif
