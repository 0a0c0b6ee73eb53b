/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An archive of builtin functions: many small bitcode modules (shards) in one file, found by the symbols they define.
 *
 * Owns: the format, and reading it. prepare.cc writes it at build time.
 * Never: looks into a shard (link.cc does).
 *
 * The file, numbers little-endian, without holes: a header; the symbols, in order of strcmp() of their names; the
 * shards; the names, each ended by a NUL; and from a multiple of FACET_ARCHIVE_ALIGN the bytes of the shards. One shard
 * holds all overloads of one function (`sin` for float, float2, double ...), since they share tables and helpers;
 * functions of other shards are declared in it.
 */
#ifndef FACET_KERNEL_BUILTINS_ARCHIVE_H
#define FACET_KERNEL_BUILTINS_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FACET_ARCHIVE_MAGIC   "FCTBLTN" /* with its NUL */
#define FACET_ARCHIVE_VERSION 1u
#define FACET_ARCHIVE_ALIGN   8u /* bitcode is read in words */

struct facet_archive_header {
    char magic[8];
    uint32_t version;
    uint32_t symbol_count, shard_count;
    uint32_t name_bytes;
    uint64_t size; /* of the file */
};

struct facet_archive_symbol {
    uint32_t name;  /* offset in the names */
    uint32_t shard; /* index */
};

struct facet_archive_shard {
    uint64_t offset, size; /* in the file */
};

/* One archive in memory, whose pointers lead into the caller's bytes. It never changes, so all threads may read it. */
struct facet_archive {
    const unsigned char *bytes;
    size_t size;
    const struct facet_archive_symbol *symbols;
    const struct facet_archive_shard *shards;
    const char *names;
    uint32_t symbol_count, shard_count;
};

/* Reads the archive in `bytes` (aligned to FACET_ARCHIVE_ALIGN, which must outlive it). FACET_CORRUPT: an offset, a
 * length or a name is wrong. All are checked here, so that no later read leaves the bytes. */
enum facet_status facet_archive_read(const void *bytes, size_t size, struct facet_archive *ret_archive,
                                     struct facet_error *error);

/* The shard that defines `name`; FACET_ARCHIVE_NONE: none does. */
#define FACET_ARCHIVE_NONE UINT32_MAX
uint32_t facet_archive_find(const struct facet_archive *archive, const char *name);

#ifdef __cplusplus
}
#endif
#endif
