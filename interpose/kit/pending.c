/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the cells and the gate. Never: takes a lock: a thread that allocates may hold any lock. */
#include "pending.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S      UINT64_C(1000000000)
#define RECHECK_NS    UINT64_C(20000000) /* ns; the longest wait at the gate before it is checked again */
#define YIELDS        64u                /* checks between which the reader only yields; then it sleeps between them */
#define SCAN_PAUSE_NS 50000
#define DEVICE_BITS   UINT64_C(0xff)

_Thread_local struct facet_pending_cell *facet_pending_own_cell;
_Atomic uint32_t facet_pending_gate_shut;

static struct facet_pending_cell *_Atomic cells;
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool thread_key_made;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- a thread's cell ---- */

static void thread_ended(void *cell)
{
    struct facet_pending_cell *own = cell;

    facet_pending_own_cell = NULL;
    atomic_store(&own->bytes, 0);
    atomic_store(&own->owned, 0);
}

static void make_key(void)
{
    thread_key_made = pthread_key_create(&thread_key, thread_ended) == 0;
}

static struct facet_pending_cell *take_orphaned_cell(void)
{
    for (struct facet_pending_cell *cell = atomic_load(&cells); cell; cell = cell->next) {
        uint32_t no_owner = 0;

        if (!atomic_load_explicit(&cell->owned, memory_order_relaxed) &&
            atomic_compare_exchange_strong(&cell->owned, &no_owner, 1))
            return cell;
    }
    return NULL;
}

static struct facet_pending_cell *create_cell(void)
{
    struct facet_pending_cell *cell = aligned_alloc(_Alignof(struct facet_pending_cell), sizeof *cell);

    if (!cell)
        return NULL;
    *cell = (struct facet_pending_cell){.owned = 1, .next = atomic_load(&cells)};
    while (!atomic_compare_exchange_weak(&cells, &cell->next, cell))
        ;
    return cell;
}

/* NULL when memory is out: then readers do not see this thread's pending bytes, and may be wrong by that amount. */
static struct facet_pending_cell *find_cell(void)
{
    struct facet_pending_cell *cell = take_orphaned_cell();

    if (!cell)
        cell = create_cell();
    pthread_once(&thread_once, make_key);
    if (cell && thread_key_made)
        pthread_setspecific(thread_key, cell);
    facet_pending_own_cell = cell;
    return cell;
}

/* ---- the gate ---- */

static void wait_until_open(void)
{
    const struct timespec longest = {.tv_nsec = RECHECK_NS};

    while (atomic_load(&facet_pending_gate_shut))
        syscall(SYS_futex, &facet_pending_gate_shut, FUTEX_WAIT_PRIVATE, 1, &longest, NULL, 0);
}

void facet_pending_enter_slow(uint64_t word)
{
    struct facet_pending_cell *cell = facet_pending_own_cell ? facet_pending_own_cell : find_cell();
    int saved = errno;

    while (cell) {
        atomic_fetch_add_explicit(&cell->enters, 1, memory_order_relaxed);
        atomic_exchange(&cell->bytes, word);
        if (!atomic_load(&facet_pending_gate_shut))
            break;
        atomic_store(&cell->bytes, 0); /* the reader that shut the gate would wait for this cell */
        wait_until_open();
    }
    errno = saved;
}

static bool word_is_of_device(uint64_t word, uint32_t device)
{
    uint64_t word_device = word & DEVICE_BITS;

    return word_device && (word_device == device + 1 || word_device == FACET_PENDING_ANY_DEVICE + 1);
}

/* Whether the reader must wait; notes the pending bytes either way. */
static bool scan_cells(uint32_t device, struct facet_pending *ret_pending)
{
    bool wait = false;

    ret_pending->count = 0;
    for (struct facet_pending_cell *cell = atomic_load(&cells); cell; cell = cell->next) {
        uint32_t enters =
            atomic_load(&cell->enters); /* read first: bytes of a later enter then count as gone, not as present */
        uint64_t word = atomic_load(&cell->bytes);

        if (!word_is_of_device(word, device))
            continue;
        if (ret_pending->count < FACET_PENDING_MOST)
            ret_pending->parts[ret_pending->count++] = (struct facet_pending_part){cell, enters, word & ~DEVICE_BITS};
        wait = wait || cell->ignored_enters != enters;
    }
    return wait;
}

/* A driver's call may last longer than readers wait, for example until a kernel ends. Only one reader waits for it. */
static void give_up_on_cells(void)
{
    for (struct facet_pending_cell *cell = atomic_load(&cells); cell; cell = cell->next)
        if (atomic_load(&cell->bytes))
            cell->ignored_enters = atomic_load_explicit(&cell->enters, memory_order_relaxed);
}

bool facet_pending_quiesce(uint32_t device, uint64_t most_ns, struct facet_pending *ret_pending)
{
    uint64_t end = now_ns() + most_ns;

    atomic_store(&facet_pending_gate_shut, 1);
    for (unsigned looks = 0; scan_cells(device, ret_pending); looks++) {
        if (now_ns() >= end) {
            give_up_on_cells();
            break;
        }
        if (looks < YIELDS)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = SCAN_PAUSE_NS}, NULL);
    }
    return ret_pending->count == 0;
}

void facet_pending_open(void)
{
    atomic_store(&facet_pending_gate_shut, 0);
    syscall(SYS_futex, &facet_pending_gate_shut, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool is_still_pending(const struct facet_pending_part *part)
{
    return atomic_load(&part->cell->bytes) && atomic_load(&part->cell->enters) == part->enters;
}

uint64_t facet_pending_subtract(uint64_t growth, const struct facet_pending *pending)
{
    for (uint32_t i = 0; i < pending->count; i++)
        if (!is_still_pending(&pending->parts[i]))
            growth -= pending->parts[i].bytes < growth ? pending->parts[i].bytes : growth;
    return growth;
}

void facet_pending_forked(void)
{
    atomic_store(&facet_pending_gate_shut, 0);
    for (struct facet_pending_cell *cell = atomic_load(&cells); cell; cell = cell->next) {
        atomic_store(&cell->bytes, 0);
        atomic_store(&cell->owned, cell == facet_pending_own_cell);
    }
}
