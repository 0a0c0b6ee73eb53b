/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: mapping the addresses of managed memory in this process, and finding out whether they need a mapping.
 * Never: maps over a mapping other than the space's own reservation.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "memory/host_side.h"
#include "vgpu/managed/managed.h"

#define NEEDED_IOCTLS (UINT64_C(1) << _UFFDIO_COPY | UINT64_C(1) << _UFFDIO_WAKE | UINT64_C(1) << _UFFDIO_WRITEPROTECT)

/* ---- whether the host and the device share the memory ---- */

/* Whether this process finds the word `expected` at `address`. A system call reads it: an unmapped address is an error.
 */
static bool host_reads(uint64_t address, uint64_t expected)
{
    uint64_t word = 0;
    struct iovec to = {&word, sizeof word}, from = {facet_managed_at(address), sizeof word};

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)sizeof word && word == expected;
}

static bool host_writes(uint64_t address, uint64_t word)
{
    struct iovec from = {&word, sizeof word}, to = {facet_managed_at(address), sizeof word};

    return process_vm_writev(getpid(), &from, 1, &to, 1, 0) == (ssize_t)sizeof word;
}

static enum facet_status copy_word(const struct facet_vgpu *vgpu, uint64_t address, uint64_t *word,
                                   enum facet_copy kind, struct facet_error *error)
{
    uint64_t word_address = (uintptr_t)word;
    bool in = kind == FACET_COPY_TO_DEVICE;

    return facet_space_copy(vgpu->space, in ? address : word_address, in ? word_address : address, sizeof *word, kind,
                            error);
}

/* The device writes a random word; if the host reads that word, the host writes another, which the device must read. */
enum facet_status facet_managed_probe(const struct facet_vgpu *vgpu, uint64_t address, bool *ret_shared,
                                      struct facet_error *error)
{
    uint64_t words[2] = {0}, before = 0, back = 0;
    enum facet_status status;
    bool is_mapped = false;

    if (getrandom(words, sizeof words, 0) != (ssize_t)sizeof words)
        return facet_error_errno(error, errno, "no random numbers");
    status = copy_word(vgpu, address, &before, FACET_COPY_TO_HOST, error);
    if (status == FACET_OK)
        status = copy_word(vgpu, address, &words[0], FACET_COPY_TO_DEVICE, error);
    if (status == FACET_OK)
        is_mapped = host_reads(address, words[0]) && host_writes(address, words[1]);
    if (status == FACET_OK && is_mapped)
        status = copy_word(vgpu, address, &back, FACET_COPY_TO_HOST, error);
    if (status == FACET_OK)
        status = copy_word(vgpu, address, &before, FACET_COPY_TO_DEVICE, error);
    if (status == FACET_OK)
        *ret_shared = is_mapped && back == words[1];
    return status;
}

/* ---- mapping addresses that are not shared ---- */

static enum facet_status watch_range(const struct facet_managed *managed, uint64_t address, uint64_t bytes,
                                     struct facet_error *error)
{
    struct uffdio_register watch = {.range = {.start = address, .len = bytes},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP};

    if (ioctl(managed->fault_fd, UFFDIO_REGISTER, &watch) < 0)
        return facet_error_errno(error, errno, "cannot watch managed memory for page faults");
    if ((watch.ioctls & NEEDED_IOCTLS) != NEEDED_IOCTLS)
        return facet_error_set(error, FACET_UNSUPPORTED,
                               "this kernel cannot protect memory from writes (userfaultfd, Linux 5.7)");
    return FACET_OK;
}

/*
 * When the program locks all its mappings (mlockall()), the kernel has already put pages into the new one. Their use
 * would never be reported as a fault, so they are dropped.
 */
static enum facet_status prepare_range(uint64_t address, uint64_t bytes, struct facet_error *error)
{
    void *start = facet_managed_at(address);

    if (munlock(start, bytes) < 0 || madvise(start, bytes, MADV_DONTNEED) < 0 ||
        madvise(start, bytes, MADV_DONTFORK) < 0)
        return facet_error_errno(error, errno, "cannot prepare the mapping of managed memory");
    return FACET_OK;
}

/*
 * Calls SYS_mmap directly, because the thread sanitizer treats mmap() as a write. Where the space has reserved its
 * addresses in this process, that mapping is replaced.
 */
enum facet_status facet_managed_map(const struct facet_managed *managed, uint64_t address, uint64_t bytes,
                                    struct facet_error *error)
{
    const int where = facet_space_reserved_in_process(managed->vgpu->space) ? MAP_FIXED : MAP_FIXED_NOREPLACE;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | where;
    long got = syscall(SYS_mmap, address, bytes, PROT_READ | PROT_WRITE, flags, -1, 0L);
    int failed = got == -1 ? errno : 0;

    if (failed == 0 && (uint64_t)got != address) { /* a kernel that does not know "no replace" (Linux 4.17) */
        munmap(facet_managed_at((uint64_t)got), bytes);
        failed = EEXIST;
    }
    if (failed == EEXIST)
        return facet_error_set(error, FACET_BUSY, "this process has something else mapped at 0x%" PRIx64, address);
    if (failed != 0)
        return facet_error_errno(error, failed, "cannot map %" PRIu64 " bytes of managed memory", bytes);
    enum facet_status status = watch_range(managed, address, bytes, error);
    if (status == FACET_OK)
        status = prepare_range(address, bytes, error);
    if (status != FACET_OK)
        facet_managed_unmap(managed, address, bytes);
    return status;
}

/* Threads that wait for a page of the range are woken after the unmapping, so that they get a signal, not zeros. */
void facet_managed_unmap(const struct facet_managed *managed, uint64_t address, uint64_t bytes)
{
    facet_space_restore_addresses(managed->vgpu->space, address, bytes);
    facet_managed_wake(managed, address, bytes);
}
