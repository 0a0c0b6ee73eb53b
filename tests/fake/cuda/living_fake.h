/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles and descriptors of a fake library of mathematics.
 *
 * Owns: how many there are, of which a test wants none in the end. Never: is included by two files of a library, which
 * would count apart; is linked by anything that ships.
 */
#ifndef FAKE_CUDA_LIVING_FAKE_H
#define FAKE_CUDA_LIVING_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static _Atomic int living;

static inline void *make(size_t size)
{
    void *made = calloc(1, size);

    if (!made)
        abort();
    living++;
    return made;
}

/* False: there is none. */
static inline bool drop(void *object)
{
    living -= object != NULL;
    free(object);
    return object;
}

#endif
