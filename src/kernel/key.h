/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of a cached image.
 *
 * Owns: the choice of facts that determine a compile's result. Two compiles with the same key make the same image.
 * Never: reads a file except Linux's description of the processor; the compiler's identity is given (plugin.h).
 */
#ifndef FACET_KERNEL_KEY_H
#define FACET_KERNEL_KEY_H

#include "kernel/options.h"
#include "kernel/plugin.h"

struct facet_cache_key {
    unsigned char bytes[16];
};

/* The source and its name, the options, the complete target (for `host` also this machine's processor), and the
 * compiler. FACET_NO_MEMORY. */
enum facet_status facet_cache_key_make(const struct facet_compile_job *job, XXH128_hash_t compiler,
                                       struct facet_cache_key *ret_key, struct facet_error *error);

/* Writes 32 hexadecimal digits and a NUL. */
void facet_cache_key_print(const struct facet_cache_key *key, char text[33]);

#endif
