/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reserving a space's addresses in this process as well as on the device.
 *
 * A provider in a process of its own has its addresses from the kernel for that process, so a device address can equal
 * a pointer of this process. A copy without named sides (FACET_COPY_DETECT) would take the pointer for the device
 * address. So this process reserves the same range, with nothing mapped, before the space gives out any of it. If the
 * reservation fails, an address at which this process has something mapped is doubtful, and such a copy is refused.
 *
 * Never: maps over an existing mapping.
 */
#include "memory/addresses.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/host_side.h"

#define RESERVE_TRIES 12u /* ranges of the device that are tried, each with twice the alignment of the one before */

/* CUDA uses lower addresses in a process that calls it directly; mmap() returns none of them. */
#define LOWEST_ADDRESS (UINT64_C(1) << 40)

static void *pointer_to(uint64_t address)
{
    return (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr) */
}

/* ---- in this process ---- */

/* Calls SYS_mmap directly, because the thread sanitizer treats mmap() as a write. */
static int reserve_in_process(uint64_t address, uint64_t bytes, int placement_flag)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | placement_flag;
    long got = syscall(SYS_mmap, address, bytes, PROT_NONE, flags, -1, 0L);

    if (got == -1)
        return errno;
    if ((uint64_t)got != address) { /* a kernel without MAP_FIXED_NOREPLACE (before Linux 4.17) */
        munmap(pointer_to((uint64_t)got), bytes);
        return EEXIST;
    }
    madvise(pointer_to(address), bytes, MADV_DONTFORK); /* a child of fork() has no driver */
    return 0;
}

/* A process with RLIMIT_AS has few addresses, and needs them for other purposes. */
bool facet_addresses_are_limited(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

void facet_space_restore_addresses(const struct facet_space *space, uint64_t address, uint64_t bytes)
{
    if (!space->reserved_in_process || reserve_in_process(address, bytes, MAP_FIXED) != 0)
        munmap(pointer_to(address), bytes);
}

bool facet_space_reserved_in_process(const struct facet_space *space)
{
    return space->reserved_in_process;
}

bool facet_addresses_are_doubtful(const struct facet_space *space, uint64_t address)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned char unused;

    if (!space->memory->backend.foreign_addresses || space->reserved_in_process)
        return false;
    return mincore(pointer_to(address & ~(page - 1)), 1, &unused) == 0 ||
           errno != ENOMEM; /* ENOMEM: nothing is mapped */
}

/* ---- on the device ---- */

static bool release_addresses(const struct facet_space *space, uint64_t address, uint64_t bytes)
{
    const struct facet_page_backend *backend = &space->memory->backend;

    return backend->ops->release(backend->data, space->context, address, bytes);
}

static enum facet_status reserve_addresses(const struct facet_space *space, uint64_t bytes, uint64_t align,
                                           uint64_t *ret_address, struct facet_error *error)
{
    const struct facet_page_backend *backend = &space->memory->backend;

    return backend->ops->reserve(backend->data, space->context, bytes, align, ret_address, error);
}

/*
 * A mapping of this process in the way may be far larger than the wanted range. So each try doubles the alignment,
 * while the rejected ranges stay reserved. False: no try succeeded, and the first range is kept.
 */
static bool find_range_free_in_process(const struct facet_space *space, uint64_t bytes, uint64_t *address)
{
    uint64_t tried[RESERVE_TRIES] = {*address}, align = FACET_ALIGN_MAX;
    int failed = reserve_in_process(*address, bytes, MAP_FIXED_NOREPLACE);
    uint32_t count = 1;

    while (failed == EEXIST && count < RESERVE_TRIES &&
           reserve_addresses(space, bytes, align *= 2, &tried[count], NULL) == FACET_OK)
        failed = reserve_in_process(tried[count++], bytes, MAP_FIXED_NOREPLACE);
    uint32_t chosen = failed == 0 ? count - 1 : 0;
    for (uint32_t i = 0; i < count; i++)
        if (i != chosen)
            (void)release_addresses(space, tried[i], bytes);
    *address = tried[chosen];
    return failed == 0;
}

enum facet_status facet_addresses_take(struct facet_space *space, uint64_t bytes, struct facet_error *error)
{
    uint64_t address = 0;
    enum facet_status status = reserve_addresses(space, bytes, FACET_ALIGN_MAX, &address, error);

    if (status != FACET_OK)
        return status;
    if (space->memory->backend.foreign_addresses && address >= LOWEST_ADDRESS && !facet_addresses_are_limited())
        space->reserved_in_process = find_range_free_in_process(space, bytes, &address);
    space->base = address;
    space->address_bytes = bytes;
    return FACET_OK;
}

bool facet_addresses_give(struct facet_space *space)
{
    bool released = release_addresses(space, space->base, space->address_bytes);

    if (space->reserved_in_process)
        munmap(pointer_to(space->base), space->address_bytes);
    return released;
}
