/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles and descriptors of a fake library of mathematics.
 *
 * Owns: the number of live objects, which a test expects to be 0 at its end. Never: is included by two files of a
 * library, because each would have a count of its own; is linked by anything that ships.
 */
#ifndef FAKE_CUDA_LIVING_FAKE_H
#define FAKE_CUDA_LIVING_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static _Atomic int live_objects;

static inline void *make_object(size_t size)
{
    void *made = calloc(1, size);

    if (!made)
        abort();
    live_objects++;
    return made;
}

/* Returns whether there was an object: false for NULL. */
static inline bool free_object(void *object)
{
    live_objects -= object != NULL;
    free(object);
    return object;
}

#endif
