/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's own library, when our library has its name.
 *
 * Owns: finding the vendor's library, and opening it although ours is loaded under the same name.
 * Never: opens it in a constructor; takes our library, or a copy of it, for the vendor's.
 *
 * The loader identifies libraries by their SONAME: for "libcuda.so.1" it would return ours. A path with a slash is
 * opened as a file, so the vendor's library is opened by its full path, with local symbols.
 */
#ifndef FACET_INTERPOSE_REAL_H
#define FACET_INTERPOSE_REAL_H

#include <stdbool.h>
#include <stddef.h>

struct facet_real {
    const char *soname;         /* "libcuda.so.1" */
    const char *variable;       /* environment variable with a full path, which overrides the search: FACET_REAL_CUDA */
    const char *const *folders; /* this vendor's folders besides the system's, ending with NULL; or NULL */
};

/*
 * The library's handle, or NULL when it is not found. Search order: the variable (exclusively, if set); the folders of
 * LD_LIBRARY_PATH; the loader's cache; the vendor's folders; the system's. A file is skipped if it cannot be opened, is
 * this library, or exports facet_interposer, as our libraries do (forward.h). Any thread; not from a signal handler.
 * The handle is never closed.
 */
void *facet_real_open(const struct facet_real *real);

/* Opens the file at `path`; NULL when facet_real_open() would skip that file. */
void *facet_real_open_path(const char *path);

#endif
