/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: linear memory of another process, by cuIpc handles. Never: counts this memory as used: the process that
 * allocated it does.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "memory.h"

_Static_assert(sizeof(struct fake_shared) <= sizeof(CUipcMemHandle), "a handle has room for it");

int fake_shared_open(const struct fake_shared *shared)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/fd/%d", shared->pid, shared->fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

int fake_shared_export(const struct fake_shared *shared, struct fake_export **list)
{
    struct fake_export *export = malloc(sizeof *export);
    int ends[2];

    if (!export || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        free(export);
        return -1;
    }
    bool sent = send(ends[0], shared, sizeof *shared, MSG_NOSIGNAL) == (ssize_t)sizeof *shared;
    *export = (struct fake_export){.next = *list, .peer_fd = ends[0]};
    *list = export;
    if (!sent)
        close(ends[1]);
    return sent ? ends[1] : -1;
}

bool fake_shared_read(int fd, uint32_t type, struct fake_shared *ret_shared)
{
    return recv(fd, ret_shared, sizeof *ret_shared, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)sizeof *ret_shared &&
           ret_shared->magic == FAKE_SHARED_MAGIC && ret_shared->type == type;
}

bool fake_shared_is_open(struct fake_export **list)
{
    for (struct fake_export **at = list; *at;) {
        struct fake_export *export = *at;
        struct pollfd ask = {.fd = export->peer_fd};

        if (poll(&ask, 1, 0) == 1 && ask.revents & POLLHUP) {
            *at = export->next;
            close(export->peer_fd);
            free(export);
        } else {
            at = &export->next;
        }
    }
    return *list;
}

static bool can_be_shared(const struct fake_block *block)
{
    return block->type == FAKE_BLOCK_PLAIN || block->type == FAKE_BLOCK_SLAB;
}

/* Like the driver, returns a handle of the whole allocation that contains the pointer. */
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
    struct fake_block *block;
    uint64_t first, bytes;

    fake_memory_lock();
    bool found = handle && fake_memory_range(pointer, &block, &first, &bytes) && can_be_shared(block);
    if (found) {
        struct fake_shared shared = {.magic = FAKE_SHARED_MAGIC,
                                     .pid = getpid(),
                                     .fd = fake_backing(),
                                     .offset = fake_backing_offset(block) + (first - block->address),
                                     .bytes = bytes,
                                     .physical = block->physical,
                                     .type = FAKE_SHARED_POINTER,
                                     .id = block->id};
        memset(handle, 0, sizeof *handle);
        memcpy(handle, &shared, sizeof shared);
    }
    fake_memory_unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Maps the whole pages that contain the memory; the pointer points into them. */
CUresult fake_shared_map(const struct fake_shared *shared, CUcontext context, CUdeviceptr *pointer)
{
    uint64_t offset = shared->offset / FAKE_PAGE * FAKE_PAGE, inside = shared->offset - offset;
    int fd = fake_shared_open(shared);
    struct fake_block *block = fd >= 0 ? fake_block_make(FAKE_BLOCK_IMPORTED, inside + shared->bytes) : NULL;
    bool mapped = block && fake_map(block->address, block->span, fd, offset, PROT_READ | PROT_WRITE);

    if (fd >= 0)
        close(fd);
    if (block && !mapped)
        fake_block_free(block);
    if (!mapped)
        return CUDA_ERROR_MAP_FAILED;
    block->context = context;
    block->physical = shared->physical;
    *pointer = block->address + inside;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned flags)
{
    struct fake_shared shared;
    CUcontext context;
    CUresult result = fake_enter(&context);

    if (result != CUDA_SUCCESS)
        return result;
    memcpy(&shared, &handle, sizeof shared);
    if (!pointer || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || shared.magic != FAKE_SHARED_MAGIC ||
        shared.type != FAKE_SHARED_POINTER)
        return CUDA_ERROR_INVALID_VALUE;
    if (shared.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* a process cannot open a handle of its own memory */
    fake_memory_lock();
    result = fake_shared_map(&shared, context, pointer);
    fake_memory_unlock();
    return result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned flags)
{
    return cuIpcOpenMemHandle_v2(pointer, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    fake_memory_lock();
    struct fake_block *block = fake_block_at(pointer);
    bool imported = block && block->type == FAKE_BLOCK_IMPORTED && block->context;
    if (imported)
        fake_block_free(block);
    fake_memory_unlock();
    return imported ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
