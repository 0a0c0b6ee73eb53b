/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's own library behind a library of ours that has its name.
 *
 * Owns: finding it, and opening it where the loader does not take ours for it.
 * Never: opens it in a constructor; takes ourselves for it, or another copy of ours.
 *
 * The loader knows libraries by the name in their SONAME: asked for "libcuda.so.1" it would give us ourselves. A path
 * with a slash is looked up as a file, so the vendor's is opened by its full path, with symbols of its own.
 */
#ifndef FACET_INTERPOSE_REAL_H
#define FACET_INTERPOSE_REAL_H

#include <stdbool.h>
#include <stddef.h>

struct facet_real {
    const char *soname;         /* "libcuda.so.1" */
    const char *variable;       /* a full path in the environment comes before all search: FACET_REAL_CUDA */
    const char *const *folders; /* where this vendor's is put besides the system's folders; ends with NULL, or NULL */
};

/*
 * The library's handle, or NULL when it is nowhere. Searched in this order: the variable (and nowhere else when it is
 * set); the folders of LD_LIBRARY_PATH; what the loader's cache lists; the vendor's folders; the system's. A file that
 * cannot be opened, is this library, or has its mark (forward.h) is passed over. Any thread; not from a signal
 * handler. The handle is never closed.
 */
void *facet_real_open(const struct facet_real *real);

/* One file, by its path, under the same conditions; NULL when it is none of them. */
void *facet_real_open_path(const char *path);

#endif
