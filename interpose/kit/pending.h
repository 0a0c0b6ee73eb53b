/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pending bytes: charged but not yet allocated by the driver, or freed by the driver but still charged. A reader that
 * compares the driver's figures with the charges needs a moment without pending bytes.
 *
 * Owns: a cell for each thread that allocates, with its pending bytes; and the gate, which is shut during a reading.
 * Never: makes a system call while the gate is open; lets a reader wait longer than its limit; knows a vendor.
 *
 * Thread rule: allocating threads call enter and leave, not nested. There is one reader at a time, and none over a
 * fork; the caller ensures both. Between enter and leave a thread must not wait for the reader. If a driver's call
 * waits for it all the same, the reader goes on after its limit, and does not wait for that call again.
 */
#ifndef FACET_INTERPOSE_PENDING_H
#define FACET_INTERPOSE_PENDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most threads whose bytes are reported to a reader that has waited as long as it may. */
#define FACET_PENDING_MOST 32u

struct facet_pending_cell {
    _Alignas(64) _Atomic uint64_t bytes; /* pending; the lowest eight bits: the device plus one; 0: nothing */
    _Atomic uint32_t enters;             /* how often a thread entered */
    _Atomic uint32_t owned;              /* 1 while a live thread uses the cell */
    uint32_t ignored_enters;             /* written by the reader: `enters` at a call that it does not wait for again */
    struct facet_pending_cell *next;     /* never freed */
};

extern _Thread_local struct facet_pending_cell *facet_pending_own_cell __attribute__((tls_model("initial-exec")));
extern _Atomic uint32_t facet_pending_gate_shut;

#define FACET_PENDING_ANY_DEVICE 0xfeu

static inline uint64_t facet_pending_word(uint32_t device, uint64_t bytes)
{
    return (bytes & ~UINT64_C(0xff)) | (device + 1);
}

void facet_pending_enter_slow(uint64_t word);

/*
 * Called before charges and the driver's memory diverge. Returns when no reader is active. The thread writes its cell
 * before it checks the gate; the reader shuts the gate before it reads cells. So at least one of the two sees the
 * other's write.
 */
static inline void facet_pending_enter(uint32_t device, uint64_t bytes)
{
    struct facet_pending_cell *cell = facet_pending_own_cell;
    uint64_t word = facet_pending_word(device, bytes);

    if (__builtin_expect(cell != NULL, 1)) {
        atomic_store_explicit(&cell->enters, atomic_load_explicit(&cell->enters, memory_order_relaxed) + 1,
                              memory_order_relaxed);
        atomic_exchange_explicit(&cell->bytes, word, memory_order_seq_cst);
        if (__builtin_expect(!atomic_load_explicit(&facet_pending_gate_shut, memory_order_seq_cst), 1))
            return;
    }
    facet_pending_enter_slow(word);
}

/* Between enter and leave: sets the actual bytes and device. */
static inline void facet_pending_set(uint32_t device, uint64_t bytes)
{
    if (facet_pending_own_cell)
        atomic_store_explicit(&facet_pending_own_cell->bytes, facet_pending_word(device, bytes), memory_order_release);
}

/* Charges and the driver's memory agree again. Allowed without enter. */
static inline void facet_pending_leave(void)
{
    if (facet_pending_own_cell)
        atomic_store_explicit(&facet_pending_own_cell->bytes, 0, memory_order_release);
}

/* The bytes that were still pending when a reader stopped waiting: their threads' cells, with the counts of enters. */
struct facet_pending {
    uint32_t count;
    struct facet_pending_part {
        struct facet_pending_cell *cell;
        uint32_t enters;
        uint64_t bytes;
    } parts[FACET_PENDING_MOST];
};

/*
 * Shuts the gate, and waits until nothing of the device is pending, at most `most_ns`. False when something is pending
 * even then: *ret_pending has the bytes of each thread. In both cases nothing becomes pending until
 * facet_pending_open().
 */
bool facet_pending_quiesce(uint32_t device, uint64_t most_ns, struct facet_pending *ret_pending);
void facet_pending_open(void);

/*
 * `growth`, which was just read, less the bytes that were pending at the first reading and are not any more. Bytes that
 * became pending meanwhile can only have reduced the growth, so the result is never too large.
 */
uint64_t facet_pending_subtract(uint64_t growth, const struct facet_pending *pending);

/* In the child of a fork: only the calling thread exists. */
void facet_pending_forked(void);

#endif
