/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles and descriptors of a fake library of mathematics.
 *
 * Owns: the count of live ones, which a test expects to be 0 at its end. Never: is included by two files of a library,
 * because each would have its own count; is linked by anything that ships.
 */
#ifndef FAKE_CUDA_LIVING_FAKE_H
#define FAKE_CUDA_LIVING_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static _Atomic int living;

static inline void *make_object(size_t size)
{
    void *made = calloc(1, size);

    if (!made)
        abort();
    living++;
    return made;
}

/* False for NULL. */
static inline bool free_object(void *object)
{
    living -= object != NULL;
    free(object);
    return object;
}

#endif
