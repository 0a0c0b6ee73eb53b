/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader's cache, /etc/ld.so.cache: it has the paths of libraries in folders that real.c does not search by name.
 *
 * Owns: reading the cache, in the format that glibc has written since 2.2 ("glibc-ld.so.cache1.1"). A cache in an older
 * format may precede it in the file. Never: trusts an offset; opens a library.
 */
#ifndef FACET_INTERPOSE_CACHE_H
#define FACET_INTERPOSE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Calls `try_path` with each path that the cache lists for `soname` and this processor, until it returns true. A file
 * that is absent or is no cache lists nothing.
 */
bool facet_cache_each(const char *file, const char *soname, bool (*try_path)(const char *path, void *context),
                      void *context);

#endif
