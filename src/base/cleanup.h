/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: cleanup attributes, so that every early return releases what it must.
 * Never: hides control flow. Use `goto fail_x` only where the order of a rollback matters.
 */
#ifndef FACET_BASE_CLEANUP_H
#define FACET_BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void facet_cleanup_free(void *pointer)
{
    free(*(void **)pointer);
}

/* Keeps errno: cleanup runs after the error value was computed, but callers may still read errno. */
static inline void facet_cleanup_fd(const int *fd)
{
    int saved = errno;

    if (*fd >= 0)
        close(*fd);
    errno = saved;
}

static inline void facet_cleanup_file(FILE **file)
{
    if (*file)
        fclose(*file);
}

static inline void facet_cleanup_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

#define FACET_CLEANUP_FREE __attribute__((cleanup(facet_cleanup_free)))
#define FACET_CLEANUP_FD   __attribute__((cleanup(facet_cleanup_fd)))
#define FACET_CLEANUP_FILE __attribute__((cleanup(facet_cleanup_file)))
#define FACET_CLEANUP_DIR  __attribute__((cleanup(facet_cleanup_dir)))

/* Hands a descriptor or pointer on to a new owner and disarms the cleanup here. */
#define FACET_TAKE_FD(fd)                                                                                              \
    __extension__({                                                                                                    \
        int facet_taken_ = (fd);                                                                                       \
        (fd) = -1;                                                                                                     \
        facet_taken_;                                                                                                  \
    })
#define FACET_TAKE_PTR(pointer)                                                                                        \
    __extension__({                                                                                                    \
        __typeof__(pointer) facet_taken_ = (pointer);                                                                  \
        (pointer) = NULL;                                                                                              \
        facet_taken_;                                                                                                  \
    })

#endif
