/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: mapping the library's file. Never: reads shards; link.cc does. */
#include "kernel/builtins/library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "kernel/builtins/library_inside.h"

static enum facet_status map_file(const char *path, void **ret_bytes, size_t *ret_size, struct facet_error *error)
{
    FACET_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;

    if (fd < 0 && errno == ENOENT)
        return facet_error_set(error, FACET_NOT_FOUND, "%s: not found; it belongs beside the kernel compiler", path);
    if (fd < 0 || fstat(fd, &about) != 0)
        return facet_error_errno(error, errno, "%s", path);
    if (!S_ISREG(about.st_mode) || about.st_size == 0)
        return facet_error_set(error, FACET_CORRUPT, "%s: expected a regular file that is not empty", path);
    void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return facet_error_errno(error, errno, "%s: mmap", path);
    *ret_bytes = bytes;
    *ret_size = (size_t)about.st_size;
    return FACET_OK;
}

enum facet_status facet_builtins_open(const char *path, struct facet_builtins **ret_library, struct facet_error *error)
{
    FACET_CLEANUP_FREE struct facet_builtins *library = calloc(1, sizeof *library);
    void *bytes = NULL;
    size_t size = 0;

    if (!library)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the library %s", path);
    enum facet_status status = map_file(path, &bytes, &size, error);
    if (status != FACET_OK)
        return status;
    status = facet_archive_read(bytes, size, &library->archive, error);
    if (status != FACET_OK) {
        munmap(bytes, size);
        return facet_error_prefix(error, "%s", path);
    }
    *ret_library = FACET_TAKE_PTR(library);
    return FACET_OK;
}

void facet_builtins_close(struct facet_builtins *library)
{
    if (!library)
        return;
    munmap((void *)(uintptr_t)library->archive.bytes, library->archive.size);
    free(library);
}
