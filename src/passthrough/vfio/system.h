/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VFIO client's calls into the kernel.
 *
 * Owns: the calls that a test replaces. Reading and writing are not among them: a test passes a descriptor of its own
 * to read() and write(). Never: interprets an answer.
 */
#ifndef FACET_PASSTHROUGH_VFIO_SYSTEM_H
#define FACET_PASSTHROUGH_VFIO_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

struct facet_vfio_system {
    int root; /* a descriptor of the directory that holds dev, sys and proc; not closed */
    void *data;
    /* These behave like openat(), ioctl() and a shared mmap(): on failure -1 or MAP_FAILED, with errno. */
    int (*open)(void *data, int directory, const char *path, int flags);
    int (*control)(void *data, int fd, unsigned long request, void *argument);
    void *(*map)(void *data, int fd, uint64_t offset, size_t bytes, int protection);
};

/* The real system calls. */
struct facet_vfio_system facet_vfio_system_real(int root);

#endif
