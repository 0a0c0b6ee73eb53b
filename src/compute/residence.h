/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose memory is on a device where not all of it fits: turns of memory, in large quanta.
 *
 * Owns: who is brought in next, who gives way for it and with how much, and how long who was brought in may stay.
 * Never: reads a clock, touches a segment, moves a byte. State and time in, decisions out.
 *
 * A client (an oversubscribed vGPU) has a set: what of its memory can be swapped. It works with all of its set on the
 * device, or not at all, as a kernel may touch any of it. One client at a time is brought in: of those that wait the
 * one that has had the device's memory least, by weight. While the device refuses it memory, others give way: first who
 * is not whole itself, then who is idle, then whose turn is over; each with no more than is missing.
 *
 * Who was brought in keeps what it has for `factor` times as long as that took, so that moving never takes more than
 * about 1/factor of the time, however large the sets are and however fast the bus is; longer by weight. Who asks for
 * more in its turn has it before those that wait for theirs. As long as everything fits nobody is ever asked to give
 * way.
 *
 * Who was asked and has given nothing for `patience_ns` is stuck: it is stopped, holds a capture open, or its kernels
 * do not end. It is still asked, but nobody waits for it any longer: others are asked in its place, and when there are
 * none the client being brought in is told so (FACET_RESIDENCE_LAST), so that the next one has its turn.
 *
 * Times are nanoseconds of one monotonic clock. Not thread-safe: one scheduler calls it.
 */
#ifndef FACET_COMPUTE_RESIDENCE_H
#define FACET_COMPUTE_RESIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#define FACET_RESIDENCE_CLIENTS 128u
#define FACET_RESIDENCE_ALL     UINT64_MAX
#define FACET_RESIDENCE_LAST    (UINT64_MAX - 1) /* everything, and nobody else has anything left to give */
#define FACET_RESIDENCE_NEVER   UINT64_MAX

struct facet_residence_config {
    uint64_t least_turn_ns; /* a turn is not shorter */
    uint32_t factor;        /* a turn is so many times as long as bringing in took; 0: nobody may keep anything */
    uint64_t idle_ns;       /* unused for so long it gives way before its turn is over, or for as long as moving took */
    uint64_t settle_ns;     /* after others gave way, before more is asked for */
    uint64_t leave_ns; /* after somebody's memory went, before the head is told that nobody is left: a driver takes its
                          time with what a program had that ended */
    uint64_t patience_ns; /* for who was asked and gives nothing; 0: without end */
};
extern const struct facet_residence_config facet_residence_defaults;

/* What a client wants, read from its segment just before a step. */
struct facet_residence_demand {
    uint64_t set_bytes, resident_bytes;
    uint64_t short_bytes; /* refused by the device to who is being brought in */
    uint32_t absent;      /* threads that wait until all is there */
    bool busy, frozen;    /* has work on the device or waiting for it; may not work */
    bool stays;           /* cannot give way: the host has no memory for it */
    uint64_t used_ns;     /* when it was last used */
};

struct facet_residence_client {
    bool used;
    uint32_t weight_milli;
    struct facet_residence_demand demand;

    uint64_t most_bytes; /* the decision: so much may be on the device; FACET_RESIDENCE_ALL: everything */
    uint64_t vtime;      /* time that it had its set on the device, by weight */
    uint64_t cost_ns;    /* what bringing it in took last */
    uint64_t turn_end_ns;
    uint64_t owes_since_ns; /* asked to give way and has given nothing since; 0: owes nothing */
    uint64_t seen_bytes;    /* what it had on the device at the last step */
    bool stuck;             /* has owed for longer than anybody waits */
    bool active;            /* wanted its set, or used it, at the last step */
};

struct facet_residence {
    struct facet_residence_config config;
    struct facet_residence_client clients[FACET_RESIDENCE_CLIENTS];
    uint32_t top;      /* one past the highest client ever used */
    int head;          /* who is brought in; -1: nobody */
    bool waiting;      /* for others' turns to end, as of the last step */
    uint64_t moved_ns; /* what bringing in the head has taken so far, without that */
    uint64_t last_ns, settled_ns;
    uint64_t left_ns; /* when memory of somebody else than the head went last */
};

void facet_residence_init(struct facet_residence *residence, const struct facet_residence_config *config,
                          uint64_t now_ns);

/* `weight_milli` 0 counts as best effort. Index, or -1 when all FACET_RESIDENCE_CLIENTS are used. */
int facet_residence_add(struct facet_residence *residence, uint32_t weight_milli);
void facet_residence_remove(struct facet_residence *residence, int client);
void facet_residence_set_weight(struct facet_residence *residence, int client, uint32_t weight_milli);

/* One step: decides every client's most_bytes from its demand. Returns when it wants to be called again at the latest;
 * FACET_RESIDENCE_NEVER when only a new demand can change anything. */
uint64_t facet_residence_step(struct facet_residence *residence, uint64_t now_ns);

#endif
