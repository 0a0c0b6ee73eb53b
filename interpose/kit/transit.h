/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes in transit: charged and not yet with the driver, or gone from the driver and still charged. Who compares the
 * driver's figures with what is charged needs a moment in which there are none.
 *
 * Owns: a cell for each thread that allocates, which says what that thread has in transit; and the gate, which is shut
 * for as long as somebody reads.
 * Never: makes a system call where the gate is open; lets a reader wait longer than it is told to; knows a vendor.
 *
 * Thread rule: who allocates calls enter and leave from any thread, one within another never. Readers are one at a
 * time: the caller sees to that, as well as that no reader is at it over a fork. Between enter and leave nobody waits
 * for what a reader may have to do first; where a driver's call does, the reader gives it up, once for each such call.
 */
#ifndef FACET_INTERPOSE_TRANSIT_H
#define FACET_INTERPOSE_TRANSIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most threads of which a reader that had to go on is told what they have in transit. */
#define FACET_TRANSIT_MOST 32u

struct facet_transit_cell {
    _Alignas(64) _Atomic uint64_t bytes; /* in transit; the lowest eight bits: the device, plus one; 0: nothing */
    _Atomic uint32_t turn;               /* so many times it was entered */
    _Atomic uint32_t owned;              /* by a living thread */
    uint32_t given_up;                   /* the reader's: the turn for which it does not wait again */
    struct facet_transit_cell *next;     /* there for good */
};

extern _Thread_local struct facet_transit_cell *facet_transit_mine __attribute__((tls_model("initial-exec")));
extern _Atomic uint32_t facet_transit_shut;

#define FACET_TRANSIT_ANY_DEVICE 0xfeu

static inline uint64_t facet_transit_word(uint32_t device, uint64_t bytes)
{
    return (bytes & ~UINT64_C(0xff)) | (device + 1);
}

void facet_transit_enter_slow(uint64_t word);

/*
 * Before what is charged and what the driver has part. Returns once nobody reads. The one atomic of it orders the cell
 * before the look at the gate; the reader shuts the gate before it looks at cells: one of the two sees the other.
 */
static inline void facet_transit_enter(uint32_t device, uint64_t bytes)
{
    struct facet_transit_cell *cell = facet_transit_mine;
    uint64_t word = facet_transit_word(device, bytes);

    if (__builtin_expect(cell != NULL, 1)) {
        atomic_store_explicit(&cell->turn, atomic_load_explicit(&cell->turn, memory_order_relaxed) + 1,
                              memory_order_relaxed);
        atomic_exchange_explicit(&cell->bytes, word, memory_order_seq_cst);
        if (__builtin_expect(!atomic_load_explicit(&facet_transit_shut, memory_order_seq_cst), 1))
            return;
    }
    facet_transit_enter_slow(word);
}

/* Within: it turned out to be so many, of that device. */
static inline void facet_transit_is(uint32_t device, uint64_t bytes)
{
    if (facet_transit_mine)
        atomic_store_explicit(&facet_transit_mine->bytes, facet_transit_word(device, bytes), memory_order_release);
}

/* The two agree again. Allowed where nothing was entered. */
static inline void facet_transit_leave(void)
{
    if (facet_transit_mine)
        atomic_store_explicit(&facet_transit_mine->bytes, 0, memory_order_release);
}

/* What was in transit when a reader went on, of which thread in which turn. */
struct facet_transit {
    uint32_t count;
    struct facet_transit_part {
        struct facet_transit_cell *cell;
        uint32_t turn;
        uint64_t bytes;
    } parts[FACET_TRANSIT_MOST];
};

/*
 * Shuts the gate, and waits until nothing of the device is in transit, for so long at most. False when something still
 * is: *ret_left says how many bytes, of each thread. Either way nothing new begins until facet_transit_open().
 */
bool facet_transit_hold_off(uint32_t device, uint64_t most_ns, struct facet_transit *ret_left);
void facet_transit_open(void);

/*
 * What `growth`, which was just read, is without what went through since the first reading: all that was in transit
 * then and is no more. What came into transit meanwhile can only have made it smaller: never more than there is, rather
 * less.
 */
uint64_t facet_transit_explain(uint64_t growth, const struct facet_transit *left);

/* In the child of a fork: nobody but the caller is left. */
void facet_transit_forked(void);

#endif
