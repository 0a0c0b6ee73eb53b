/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the real system calls for the VFIO client. Never: interprets an answer. */
#include "passthrough/vfio/system.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static int open_really(void *data, int directory, const char *path, int flags)
{
    return openat(directory, path, flags | O_CLOEXEC);
}

static int control_really(void *data, int fd, unsigned long request, void *argument)
{
    return ioctl(fd, request, argument);
}

static void *map_really(void *data, int fd, uint64_t offset, size_t bytes, int protection)
{
    return mmap(NULL, bytes, protection, MAP_SHARED, fd, (off_t)offset);
}

struct facet_vfio_system facet_vfio_system_real(int root)
{
    return (struct facet_vfio_system){
        .root = root,
        .open = open_really,
        .control = control_really,
        .map = map_really,
    };
}
