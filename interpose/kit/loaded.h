/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's library as the program's objects see it: loaded already, or where the loader would have found it.
 *
 * Owns: searching the loaded objects.
 * Never: opens a library itself; searches where no object of the program would.
 *
 * A library that the program bundles lies beside the object that needs it, on that object's own search path. If our
 * library was preloaded under another name, the bundled library is loaded too, and only has to be found. If our library
 * was loaded under its name, the bundled library is searched on the path of the object that needs that name.
 */
#ifndef FACET_INTERPOSE_LOADED_H
#define FACET_INTERPOSE_LOADED_H

#include <stdbool.h>

/*
 * Calls `take` with each path whose file name begins with `name` ("libamdhip64.so"), until it returns true. Loaded
 * libraries come first, then dependencies of loaded objects, in the folders where the loader searches for them. Any
 * thread; also while the program is being loaded.
 */
bool facet_loaded_each(const char *name, bool (*take)(const char *path, void *context), void *context);

#endif
