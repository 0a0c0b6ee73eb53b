/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: memory of this process as a page backend: chunks are parts of a memfd, mapping is mmap() over reserved
 * addresses, and a move is a transplant (base/transplant.h). A committed chunk has all its memory when it is made, and
 * has a second mapping (base/page_view.h).
 * Never: installs a signal handler, starts a thread, or reads the contents of the memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/page_view.h"
#include "base/quiet.h"
#include "base/transplant.h"
#include "memory/backend.h"

#define NO_ACCESS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* A part of the file that is free again, to be reused for a chunk of the same size. */
struct free_part {
    struct free_part *next;
    uint64_t offset, bytes;
};

struct memfd {
    pthread_mutex_t lock; /* protects free_parts, used_bytes and end_offset */
    struct free_part *free_parts;
    uint64_t used_bytes, end_offset;

    uint64_t max_bytes, file_max_bytes;
    int fd;
    int fault_fd;                /* the userfaultfd; -1: this kernel cannot protect shared memory */
    struct facet_page_view view; /* the second mapping; closed: memory is not committed */
};

static void *pointer_to(uint64_t address)
{
    return (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr) */
}

/* --- addresses and chunks ----------------------------------------------------------------------------------------- */

static enum facet_status reserve_addresses(void *data, uint64_t context, uint64_t bytes, uint64_t align,
                                           uint64_t *ret_address, struct facet_error *error)
{
    char *got = mmap(NULL, bytes + align, PROT_NONE, NO_ACCESS, -1, 0);

    if (got == MAP_FAILED)
        return facet_error_errno(error, errno, "cannot reserve %" PRIu64 " bytes of addresses", bytes);
    uint64_t before = -(uintptr_t)got & (align - 1);
    if (before)
        munmap(got, before);
    munmap(got + before + bytes, align - before);
    *ret_address = (uintptr_t)got + before;
    return FACET_OK;
}

static bool release_addresses(void *data, uint64_t context, uint64_t address, uint64_t bytes)
{
    return munmap(pointer_to(address), bytes) == 0;
}

static struct free_part *take_free_part(struct memfd *memfd, uint64_t bytes)
{
    for (struct free_part **link = &memfd->free_parts; *link; link = &(*link)->next) {
        struct free_part *free_part = *link;

        if (free_part->bytes != bytes)
            continue;
        *link = free_part->next;
        return free_part;
    }
    return NULL;
}

/* Handles are offsets plus one: never 0. */
static uint64_t handle_of(uint64_t offset)
{
    return offset + 1;
}

static uint64_t offset_of(const struct facet_page_place *place)
{
    return place->pages - 1 + place->offset;
}

/* The offset of the next unused part: aligned for huge pages, which begin at multiples of their size. */
static uint64_t next_part_offset(const struct memfd *memfd, uint64_t bytes)
{
    uint64_t step = memfd->view.base && bytes >= FACET_HUGE_BYTES ? FACET_HUGE_BYTES : 1;

    return (memfd->end_offset + step - 1) / step * step;
}

static bool lengthen_file(int fd, uint64_t bytes)
{
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    return ftruncate(fd, (off_t)bytes) == 0;
}

static enum facet_status take_part(struct memfd *memfd, uint64_t bytes, uint64_t *ret_offset, struct facet_error *error)
{
    uint64_t end = next_part_offset(memfd, bytes);
    struct free_part *free_part;

    if (bytes > memfd->max_bytes - memfd->used_bytes)
        return facet_error_set(error, FACET_NO_SPACE,
                               "%" PRIu64 " of the device's %" PRIu64 " bytes are in use, and %" PRIu64 " were wanted",
                               memfd->used_bytes, memfd->max_bytes, bytes);
    free_part = take_free_part(memfd, bytes);
    if (!free_part && (end > memfd->file_max_bytes || memfd->file_max_bytes - end < bytes))
        return facet_error_set(error, FACET_NO_SPACE, "the host memory has no %" PRIu64 " bytes in a row", bytes);
    if (!free_part && !lengthen_file(memfd->fd, end + bytes))
        return facet_error_errno(error, errno, "cannot grow the host memory by %" PRIu64 " bytes", bytes);
    *ret_offset = free_part ? free_part->offset : end;
    memfd->end_offset = free_part ? memfd->end_offset : end + bytes;
    memfd->used_bytes += bytes;
    free(free_part);
    return FACET_OK;
}

/*
 * Punching a hole gives the memory back and makes the part zero. If there is no memory for the record of a free part,
 * this part of the file is not used again, which costs only file offsets.
 */
static void destroy_pages(void *data, uint64_t chunk, uint64_t bytes)
{
    struct memfd *memfd = data;
    struct free_part *free_part = malloc(sizeof *free_part);
    uint64_t offset = chunk - 1;
    bool zero = fallocate(memfd->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) == 0;

    facet_page_view_forget(&memfd->view, offset, bytes);
    pthread_mutex_lock(&memfd->lock);
    memfd->used_bytes -= bytes;
    if (free_part && zero) {
        *free_part = (struct free_part){.next = memfd->free_parts, .offset = offset, .bytes = bytes};
        memfd->free_parts = free_part;
        free_part = NULL;
    }
    pthread_mutex_unlock(&memfd->lock);
    free(free_part);
}

static enum facet_status create_pages(void *data, uint64_t bytes, uint64_t *ret_chunk, struct facet_error *error)
{
    struct memfd *memfd = data;
    uint64_t offset = 0;

    pthread_mutex_lock(&memfd->lock);
    enum facet_status status = take_part(memfd, bytes, &offset, error);
    pthread_mutex_unlock(&memfd->lock);
    if (status != FACET_OK)
        return status;
    int failed = memfd->view.base ? facet_page_view_commit(&memfd->view, memfd->fd, offset, bytes) : 0;
    if (failed) {
        destroy_pages(memfd, handle_of(offset), bytes);
        return facet_error_set(error, FACET_NO_SPACE, "the host gives no %" PRIu64 " bytes at once: %s", bytes,
                               strerror(failed));
    }
    *ret_chunk = handle_of(offset);
    return FACET_OK;
}

static uint64_t huge_bytes(void *data)
{
    const struct memfd *memfd = data;

    return atomic_load_explicit(&memfd->view.huge_bytes, memory_order_relaxed);
}

/* --- mapping ------------------------------------------------------------------------------------------------------ */

/*
 * Calls SYS_mmap directly, because the thread sanitizer treats mmap() as a write. Mapping other pages with the same
 * contents over memory in use is not a write.
 */
static enum facet_status map_pages(void *data, uint64_t context, uint64_t address, const struct facet_page_place *place,
                                   uint64_t bytes, struct facet_error *error)
{
    const struct memfd *memfd = data;
    long got = syscall(SYS_mmap, pointer_to(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memfd->fd,
                       (off_t)offset_of(place));

    if (got == -1 && errno == ENOMEM)
        return facet_error_set(error, FACET_NO_SPACE,
                               "the kernel takes no more mappings of this process (vm.max_map_count); defragment, or "
                               "use larger pages");
    if (got == -1)
        return facet_error_errno(error, errno, "cannot map %" PRIu64 " bytes", bytes);
    return FACET_OK;
}

/* munmap() in the middle of a mapping needs one more mapping: it fails when the process has no more. */
static enum facet_status unmap_pages(void *data, uint64_t context, uint64_t address, uint64_t bytes)
{
    return mmap(pointer_to(address), bytes, PROT_NONE, NO_ACCESS | MAP_FIXED, -1, 0) == MAP_FAILED ? FACET_NO_SPACE
                                                                                                   : FACET_OK;
}

static enum facet_status move_pages(void *data, uint64_t context, uint64_t address, const struct facet_page_move *move,
                                    uint64_t bytes, struct facet_error *error)
{
    struct memfd *memfd = data;
    const struct facet_transplant place = {
        .file = memfd->fd,
        .offset = offset_of(&move->to),
        .to = facet_page_view_at(&memfd->view, offset_of(&move->to)),
        .from = facet_page_view_at(&memfd->view, offset_of(&move->from)),
    };
    const char *failed_step = NULL;

    if (memfd->fault_fd < 0)
        return facet_error_set(error, FACET_UNSUPPORTED, FACET_TRANSPLANT_LACKS);
    int failed = facet_transplant(memfd->fault_fd, pointer_to(address), bytes, &place, &failed_step);
    return failed ? facet_error_errno(error, failed, "%s", failed_step) : FACET_OK;
}

/* --- contents ----------------------------------------------------------------------------------------------------- */

static enum facet_status write_to(void *data, uint64_t context, uint64_t address, const void *from, uint64_t bytes,
                                  struct facet_error *error)
{
    memmove(pointer_to(address), from, bytes);
    return FACET_OK;
}

static enum facet_status read_from(void *data, uint64_t context, uint64_t address, void *ret_data, uint64_t bytes,
                                   struct facet_error *error)
{
    memmove(ret_data, pointer_to(address), bytes);
    return FACET_OK;
}

static enum facet_status copy_bytes(void *data, uint64_t context, uint64_t to, uint64_t from, uint64_t bytes,
                                    struct facet_error *error)
{
    memmove(pointer_to(to), pointer_to(from), bytes);
    return FACET_OK;
}

static enum facet_status fill_bytes(void *data, uint64_t context, uint64_t address, uint8_t value, uint64_t bytes,
                                    struct facet_error *error)
{
    memset(pointer_to(address), value, bytes);
    return FACET_OK;
}

/* --- the backend -------------------------------------------------------------------------------------------------- */

static void close_memfd(void *data)
{
    struct memfd *memfd = data;

    while (memfd->free_parts) {
        struct free_part *free_part = memfd->free_parts;

        memfd->free_parts = free_part->next;
        free(free_part);
    }
    if (memfd->fault_fd >= 0)
        close(memfd->fault_fd);
    close(memfd->fd);
    facet_page_view_close(&memfd->view);
    pthread_mutex_destroy(&memfd->lock);
    free(memfd);
}

static const struct facet_page_ops operations = {
    .close = close_memfd,
    .reserve = reserve_addresses,
    .release = release_addresses,
    .create = create_pages,
    .destroy = destroy_pages,
    .map = map_pages,
    .unmap = unmap_pages,
    .move = move_pages,
    .write = write_to,
    .read = read_from,
    .copy = copy_bytes,
    .fill = fill_bytes,
    .huge_bytes = huge_bytes,
};

enum facet_status facet_page_backend_memfd(uint64_t bytes, bool commit, struct facet_page_backend *ret_backend,
                                           struct facet_error *error)
{
    struct memfd *memfd = calloc(1, sizeof *memfd);

    if (!memfd)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the host's page backend");
    *memfd = (struct memfd){
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .max_bytes = bytes,
        .file_max_bytes = bytes + bytes / 2, /* chunks of other sizes may leave gaps */
        .fd = memfd_create("facet-memory", MFD_CLOEXEC),
        .fault_fd = -1,
    };
    bool has_view = !commit || facet_page_view_open(&memfd->view, memfd->file_max_bytes);
    if (memfd->fd < 0 || !has_view) {
        int failed = has_view ? errno : ENOMEM;
        close_memfd(memfd);
        return facet_error_errno(error, failed, "cannot make host memory");
    }
    memfd->fault_fd = facet_transplant_open();
    *ret_backend = (struct facet_page_backend){
        .ops = &operations,
        .data = memfd,
        .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
        .host_memory = true,
    };
    return FACET_OK;
}
