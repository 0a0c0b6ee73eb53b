/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: exchanging pages under addresses in use. Never: blocks writers during work that can be done before. */
#include "base/transplant.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHE_LINE_BYTES 64
#define PAGE_BYTES       4096
#define HUGE_PAGE_BYTES  (2u << 20)

int facet_transplant_open(void)
{
#if defined(UFFD_FEATURE_WP_HUGETLBFS_SHMEM) && defined(UFFD_USER_MODE_ONLY)
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_HUGETLBFS_SHMEM};
    int fault_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

    if (fault_fd >= 0 && ioctl(fault_fd, UFFDIO_API, &api) == 0)
        return fault_fd;
    if (fault_fd >= 0)
        close(fault_fd);
#endif
    return -1;
}

/* --- before any thread is blocked --- */

/*
 * Touches each page, so that the kernel enters it into the page table. On a read the kernel enters sixteen present
 * pages at a time, on a write one by one. Pages that were entered by a read are writable too, because a memfd does not
 * track writes. The thread sanitizer is off here, because it must not record accesses to the window.
 */
__attribute__((no_sanitize("thread"))) static void touch(const volatile char *at, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += PAGE_BYTES)
        (void)at[i];
}

/*
 * To protect a part of a huge page the kernel removes the huge page from the page table, and then enters small pages. A
 * thread that writes there in between makes the kernel enter the huge page again, and the protection begins anew; this
 * can repeat for milliseconds. At addresses that are marked not to have huge pages, the kernel enters only small pages
 * (since Linux 6.12; before that, the protection only becomes likely to succeed). The mapping that replaces them does
 * not inherit the mark. For a protected range below a huge page's size the kernel uses no huge page.
 */
static void keep_huge_pages_out(uint64_t at, uint64_t bytes)
{
    if (bytes >= HUGE_PAGE_BYTES)
        (void)madvise((void *)at, bytes, MADV_NOHUGEPAGE);
}

/* --- protection --- */

static int protect_from_writes(int fault_fd, uint64_t at, uint64_t bytes)
{
    struct uffdio_writeprotect protection = {.range = {at, bytes}, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
    uint64_t half = bytes / 2 / PAGE_BYTES * PAGE_BYTES;
    int result;

    do
        result = ioctl(fault_fd, UFFDIO_WRITEPROTECT, &protection);
    while (result < 0 && errno == EAGAIN);
    if (result == 0 || errno != ENOENT || half == 0)
        return result < 0 ? errno : 0;
    /* Older kernels protect within one mapping only. */
    result = protect_from_writes(fault_fd, at, half);
    return result ? result : protect_from_writes(fault_fd, at + half, bytes - half);
}

/* Lets writers go on; after a failure they write to the old pages. */
static void wake_writers(int fault_fd, uint64_t at, uint64_t bytes, bool moved)
{
    struct uffdio_range all = {at, bytes};

    if (!moved)
        (void)!ioctl(fault_fd, UFFDIO_UNREGISTER, &all);
    (void)!ioctl(fault_fd, UFFDIO_WAKE, &all);
}

static int protect_range(int fault_fd, uint64_t at, uint64_t bytes, const char **ret_failed_step)
{
    struct uffdio_register watch = {.range = {at, bytes}, .mode = UFFDIO_REGISTER_MODE_WP};

    keep_huge_pages_out(at, bytes);
    *ret_failed_step = "cannot watch over writes to the pages that are to move";
    if (ioctl(fault_fd, UFFDIO_REGISTER, &watch) < 0)
        return errno;
    *ret_failed_step = "cannot protect the pages that are to move";
    int failed = protect_from_writes(fault_fd, at, bytes);
    if (failed)
        wake_writers(fault_fd, at, bytes, false);
    return failed;
}

/* --- moving --- */

/*
 * Copies a cache line with non-temporal stores: no thread reads it at this address, and the data of kernels stays in
 * the caches. Assembly, because the thread sanitizer would take memcpy() for a race with the blocked writers.
 */
static void copy_line(char *to, const char *from)
{
#ifdef __x86_64__
    __asm__ volatile("prefetcht0 1024(%1)\n\t"
                     "movdqa (%1), %%xmm0\n\t"
                     "movdqa 16(%1), %%xmm1\n\t"
                     "movdqa 32(%1), %%xmm2\n\t"
                     "movdqa 48(%1), %%xmm3\n\t"
                     "movntdq %%xmm0, (%0)\n\t"
                     "movntdq %%xmm1, 16(%0)\n\t"
                     "movntdq %%xmm2, 32(%0)\n\t"
                     "movntdq %%xmm3, 48(%0)"
                     :
                     : "r"(to), "r"(from)
                     : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
#else
    for (int i = 0; i < CACHE_LINE_BYTES; i += 8)
        __atomic_store_n((uint64_t *)(to + i), __atomic_load_n((const uint64_t *)(from + i), __ATOMIC_RELAXED),
                         __ATOMIC_RELAXED);
#endif
}

/* `bytes` are whole pages. */
static void copy_bytes(void *to, const void *from, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += CACHE_LINE_BYTES)
        copy_line((char *)to + at, (const char *)from + at);
#ifdef __x86_64__
    __builtin_ia32_sfence(); /* non-temporal stores are not ordered with other stores */
#endif
}

/*
 * A window comes with its pages entered, so that no thread is stopped there. A kernel that is out of mappings may have
 * removed the old pages before it failed: then a mapping takes their place, which needs no more mappings than there
 * were. Uses bare system calls, because the thread sanitizer takes mmap() for a write. Exchanging pages with the same
 * contents is not a write.
 */
static int put_in_place(void *window, uint64_t at, uint64_t bytes, const struct facet_transplant *place)
{
    if (window && syscall(SYS_mremap, window, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) != -1)
        return 0;
    if (syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, place->file,
                (off_t)place->offset) == -1)
        return errno;
    if (window)
        munmap(window, bytes);
    return 0;
}

/* `window`: the mapping of the new pages that is to be put in place; NULL: they are mapped elsewhere. */
static int exchange_range(int fault_fd, void *at, uint64_t bytes, const struct facet_transplant *place, void *window,
                          const char **ret_failed_step)
{
    uint64_t address = (uintptr_t)at;
    int failed = protect_range(fault_fd, address, bytes, ret_failed_step);

    if (failed)
        return failed;
    /* Pages that were mapped as one huge page are no longer entered at `at` once they are protected. */
    copy_bytes(window ? window : place->to, place->from ? place->from : at, bytes);
    *ret_failed_step = "cannot map pages at their new place";
    failed = put_in_place(window, address, bytes, place);
    wake_writers(fault_fd, address, bytes, failed == 0);
    return failed;
}

int facet_transplant(int fault_fd, void *at, uint64_t bytes, const struct facet_transplant *place,
                     const char **ret_failed_step)
{
    if (place->to)
        return exchange_range(fault_fd, at, bytes, place, NULL, ret_failed_step);
    /*
     * A bare system call, as for the unmapping: the thread sanitizer would otherwise remember the window after its
     * addresses were reused, for a kernel's image for example.
     */
    long mapped = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, place->file, (off_t)place->offset);
    void *window = (void *)mapped;

    *ret_failed_step = "cannot map the place that pages are to move to";
    if (mapped == -1)
        return errno;
    touch(window, bytes);
    int failed = exchange_range(fault_fd, at, bytes, place, window, ret_failed_step);
    if (failed)
        munmap(window, bytes);
    return failed;
}
