/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's library as the program's own objects know it: loaded already, or where the loader would have found it.
 *
 * Owns: looking through what is loaded.
 * Never: opens a library itself; looks where no object of the program would.
 *
 * A library that the program bundles lies beside the object that needs it, where only that object's own search path
 * leads. Where ours was preloaded under another name it is loaded besides, and only has to be found; where ours took
 * its name, the object that needs the name tells where to look.
 */
#ifndef FACET_INTERPOSE_LOADED_H
#define FACET_INTERPOSE_LOADED_H

#include <stdbool.h>

/*
 * Calls `take` with each path whose file's name begins with `name` ("libamdhip64.so"), until one is taken: first of
 * what is loaded, then of what loaded objects need, in the folders where the loader looks for them. Any thread; also
 * while the program is being loaded.
 */
bool facet_loaded_each(const char *name, bool (*take)(const char *path, void *context), void *context);

#endif
