/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the real system calls for the VFIO client. Never: interprets an answer. */
#include "passthrough/vfio/system.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static int real_open(void *data, int directory, const char *path, int flags)
{
    return openat(directory, path, flags | O_CLOEXEC);
}

static int real_control(void *data, int fd, unsigned long request, void *argument)
{
    return ioctl(fd, request, argument);
}

static void *real_map(void *data, int fd, uint64_t offset, size_t bytes, int protection)
{
    return mmap(NULL, bytes, protection, MAP_SHARED, fd, (off_t)offset);
}

struct facet_vfio_system facet_vfio_system_real(int root)
{
    return (struct facet_vfio_system){
        .root = root,
        .open = real_open,
        .control = real_control,
        .map = real_map,
    };
}
