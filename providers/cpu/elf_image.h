/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether bytes are a shared object that the dynamic loader can be given.
 *
 * Owns: reading the parts that the loader will read, before it does: the loader trusts the files that it opens.
 * Never: runs or maps anything, and never accepts features that a kernel image has no use for: libraries, constructors,
 * thread-local memory, indirect functions, versions of symbols.
 */
#ifndef CPU_ELF_IMAGE_H
#define CPU_ELF_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/error.h>

#define CPU_ELF_PARTS 8u

/* A part of the object in memory, relative to where it is loaded. */
struct cpu_elf_part {
    uint64_t at, bytes;
    bool write, execute;
};

struct cpu_elf {
    uint32_t count;
    struct cpu_elf_part parts[CPU_ELF_PARTS];
};

/* FACET_CORRUPT; the message has the value found and the value expected. */
enum facet_status cpu_elf_check(const void *bytes, uint64_t size, struct cpu_elf *ret_elf, struct facet_error *error);

#endif
