/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: addresses, the pages of the file that back them, and the table of blocks. Never: depends on a block's use,
 * except that some types have no memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory.h"

#define PAGES (UINT64_C(128) << 10) /* 256 GiB of addresses, and as much in the file beyond them */

/* The owner of each page; NULL: free. A search for a run of free pages begins where the last search ended. */
struct runs {
    void *pages[PAGES];
    uint64_t cursor;
};

static struct runs address_pages, backing_pages;
static uint64_t base;
static int backing = -1;

_Noreturn static void abort_with_error(const char *what)
{
    perror(what);
    abort();
}

/* ---- the lock ---- */

/*
 * The lock is FIFO. A thread that releases a plain mutex usually takes it again before another thread can: the measured
 * cost of two threads that only allocate would then depend on how soon each tries again.
 */
#define SPINS 200u /* reads of the ticket before a waiting thread sleeps: some microseconds */

static struct {
    _Alignas(64) _Atomic uint32_t next_ticket;
    _Alignas(64) _Atomic uint32_t serving; /* a futex word */
    _Atomic uint32_t sleepers;
} lock;

static void sleep_until_served(uint32_t ticket)
{
    uint32_t serving;

    atomic_fetch_add(&lock.sleepers, 1);
    while ((serving = atomic_load(&lock.serving)) != ticket)
        syscall(SYS_futex, &lock.serving, FUTEX_WAIT_PRIVATE, serving, NULL, NULL, 0);
    atomic_fetch_sub(&lock.sleepers, 1);
}

void fake_memory_lock(void)
{
    uint32_t ticket = atomic_fetch_add_explicit(&lock.next_ticket, 1, memory_order_relaxed);

    for (unsigned spins = 0; atomic_load_explicit(&lock.serving, memory_order_acquire) != ticket; spins++) {
        if (spins == SPINS) {
            sleep_until_served(ticket);
            return;
        }
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
    }
}

void fake_memory_unlock(void)
{
    atomic_fetch_add(&lock.serving, 1);
    if (atomic_load(&lock.sleepers))
        syscall(SYS_futex, &lock.serving, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- addresses ---- */

/* The addresses begin at a multiple of FAKE_PAGE, so that each entry of the table stands for one page. */
static void begin_space(void)
{
    void *mapped = mmap(NULL, (PAGES + 1) * FAKE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    backing = memfd_create("fake-cuda-memory", MFD_CLOEXEC);
    if (mapped == MAP_FAILED || backing < 0 || ftruncate(backing, (off_t)(2 * PAGES * FAKE_PAGE)) != 0)
        abort_with_error("fake CUDA: cannot reserve addresses or the file that backs them");
    base = fake_round_up((uintptr_t)mapped, FAKE_PAGE);
}

int fake_backing(void)
{
    if (!base)
        begin_space();
    return backing;
}

static bool find_run_between(const struct runs *runs, uint64_t from, uint64_t to, uint64_t count, uint64_t *ret_first)
{
    uint64_t length = 0;

    for (uint64_t at = from; at < to; at++) {
        length = runs->pages[at] ? 0 : length + 1;
        if (length == count) {
            *ret_first = at + 1 - count;
            return true;
        }
    }
    return false;
}

static bool find_run(struct runs *runs, uint64_t count, uint64_t *ret_first)
{
    if (count > PAGES || (!find_run_between(runs, runs->cursor, PAGES, count, ret_first) &&
                          !find_run_between(runs, 0, PAGES, count, ret_first)))
        return false;
    runs->cursor = *ret_first + count;
    return true;
}

static void mark_run(struct runs *runs, uint64_t first, uint64_t count, void *owner)
{
    for (uint64_t i = 0; i < count; i++)
        runs->pages[first + i] = owner;
}

static uint64_t page_of(uint64_t address)
{
    return (address - base) / FAKE_PAGE;
}

bool fake_map(uint64_t address, uint64_t bytes, int fd, uint64_t offset, int protection)
{
    return mmap((void *)(uintptr_t)address, bytes, protection, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) != MAP_FAILED;
}

void fake_unmap(uint64_t address, uint64_t bytes)
{
    if (mmap((void *)(uintptr_t)address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED)
        abort_with_error("fake CUDA: cannot unmap memory");
}

static void punch_hole(uint64_t offset, uint64_t bytes)
{
    if (fallocate(backing, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) != 0)
        abort_with_error("fake CUDA: cannot free pages of the backing file");
}

bool fake_backing_allocate(uint64_t bytes, uint64_t *ret_offset)
{
    uint64_t first, count = fake_round_up(bytes, FAKE_PAGE) / FAKE_PAGE;

    if (fake_backing() < 0 || !find_run(&backing_pages, count, &first))
        return false;
    mark_run(&backing_pages, first, count, &backing_pages);
    *ret_offset = (PAGES + first) * FAKE_PAGE;
    return true;
}

void fake_backing_free(uint64_t offset, uint64_t bytes)
{
    uint64_t count = fake_round_up(bytes, FAKE_PAGE) / FAKE_PAGE;

    mark_run(&backing_pages, offset / FAKE_PAGE - PAGES, count, NULL);
    punch_hole(offset, count * FAKE_PAGE);
}

uint64_t fake_backing_offset(const struct fake_block *block)
{
    return block->address - base;
}

static bool has_memory(enum fake_block_type type)
{
    return type != FAKE_BLOCK_RESERVED && type != FAKE_BLOCK_IMPORTED;
}

struct fake_block *fake_block_make(enum fake_block_type type, uint64_t bytes)
{
    static uint64_t ids;
    struct fake_block *block = calloc(1, sizeof *block);
    uint64_t first, span = fake_round_up(bytes, FAKE_PAGE);

    if (!block || fake_backing() < 0 || !find_run(&address_pages, span / FAKE_PAGE, &first)) {
        free(block);
        return NULL;
    }
    *block = (struct fake_block){
        .type = type, .address = base + first * FAKE_PAGE, .bytes = bytes, .span = span, .id = ++ids};
    if (has_memory(type) &&
        !fake_map(block->address, span, backing, fake_backing_offset(block), PROT_READ | PROT_WRITE)) {
        free(block);
        return NULL;
    }
    mark_run(&address_pages, first, span / FAKE_PAGE, block);
    return block;
}

void fake_block_free(struct fake_block *block)
{
    fake_unmap(block->address, block->span);
    if (has_memory(block->type))
        punch_hole(fake_backing_offset(block), block->span);
    mark_run(&address_pages, page_of(block->address), block->span / FAKE_PAGE, NULL);
    free(block->type_data);
    free(block);
}

struct fake_block *fake_block_at(uint64_t address)
{
    return base && address >= base && page_of(address) < PAGES ? address_pages.pages[page_of(address)] : NULL;
}

void fake_visit_blocks(void (*visit)(struct fake_block *block, void *argument), void *argument)
{
    for (uint64_t at = 0; at < PAGES; at++) {
        struct fake_block *block = address_pages.pages[at];

        if (!block)
            continue;
        at += block->span / FAKE_PAGE - 1;
        visit(block, argument);
    }
}
