/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of device memory, in large quanta, on a device that cannot hold all clients' memory at once.
 *
 * Owns: the choice of the client that is brought in next, the memory that each other client gives up for it, and the
 * time that a client may stay.
 * Never: reads a clock, touches a segment, moves a byte. State and time in, decisions out.
 *
 * A client (an oversubscribed vGPU) has a set: its swappable memory. It works only while all of its set is on the
 * device, because a kernel may touch any of it. One client at a time is brought in: the waiting client that has had the
 * device's memory for the least time, by weight. While the device refuses memory to this client, others give way: first
 * clients that do not have their whole set there either, then idle clients, then clients whose turn is over. Each gives
 * no more than is missing.
 *
 * The active client of least weight keeps its memory for `turn_factor` times as long as bringing it in took, the others
 * longer in proportion to their weight. So moving
 * never takes more than about 1/turn_factor of the time, however large the sets and however fast the bus. A client that
 * asks for more memory within its turn goes before the clients that wait for a turn. As long as everything fits, no
 * client is asked to give way.
 *
 * A client that was asked and has given nothing for `patience_ns` is stuck: for example, its program was stopped by a
 * signal or holds a capture open, or its kernels do not end. It is still asked, but no longer waited for: other clients
 * are asked in its place. When none is left, the client that is being brought in is told so (FACET_RESIDENCE_LAST). If
 * the device still refuses it memory, it fails its call and waits no longer, so that the next client can have its turn.
 *
 * Times are nanoseconds of one monotonic clock. Not thread-safe: one scheduler calls it.
 */
#ifndef FACET_COMPUTE_RESIDENCE_H
#define FACET_COMPUTE_RESIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#define FACET_RESIDENCE_CLIENTS 128u
#define FACET_RESIDENCE_ALL     UINT64_MAX
#define FACET_RESIDENCE_LAST    (UINT64_MAX - 1) /* everything, and no other client has anything left to give */
#define FACET_RESIDENCE_NEVER   UINT64_MAX

struct facet_residence_config {
    uint64_t least_turn_ns; /* the shortest turn */
    uint32_t
        turn_factor; /* a turn's length in units of the time that bringing in took; 0: each turn is over as it begins */
    uint64_t idle_ns;   /* a client that was not used for this long, or for as long as moving its set took if that is
                           longer, gives way before its turn is over */
    uint64_t settle_ns; /* the wait after others gave way, before more is asked for */
    uint64_t leave_ns; /* the wait after a client's memory went, before the incoming client gets FACET_RESIDENCE_LAST */
    uint64_t patience_ns; /* how long a client that was asked may give nothing; 0: forever */
};
/* Turns of 0.1 s or more and 20 times what moving took; a client is stuck after 30 s. */
extern const struct facet_residence_config facet_residence_defaults;

/* A client's demand, read from its segment just before a step. */
struct facet_residence_demand {
    uint64_t set_bytes, resident_bytes;
    uint64_t refused_bytes;    /* refused by the device to the client that is being brought in */
    uint32_t waiting_resident; /* threads that wait until the whole set is on the device */
    bool busy, frozen;         /* busy: has work on the device or waiting for it; frozen: may not work */
    bool cannot_swap;          /* cannot give way: the host has no memory for its set */
    uint64_t used_ns;          /* when it was last used */
};

struct facet_residence_client {
    bool used;
    uint32_t weight_milli;
    struct facet_residence_demand demand;

    uint64_t most_bytes; /* the decision: at most this may be on the device; FACET_RESIDENCE_ALL: everything */
    uint64_t vtime;      /* for how long its set was on the device, divided by weight */
    uint64_t cost_ns;    /* how long bringing it in took last time */
    uint64_t turn_end_ns;
    uint64_t owes_since_ns;       /* since when it was asked to give way and has given nothing; 0: it owes nothing */
    uint64_t last_resident_bytes; /* its bytes on the device at the last step */
    bool stuck;                   /* has owed for longer than `patience_ns` */
    bool active;                  /* wanted its set, or used it, at the last step */
};

struct facet_residence {
    struct facet_residence_config config;
    struct facet_residence_client clients[FACET_RESIDENCE_CLIENTS];
    uint32_t clients_end; /* one past the highest client ever used */
    int incoming;         /* the client that is being brought in; -1: none */
    bool waiting;         /* at the last step it waited for others' turns to end */
    uint64_t moving_ns;   /* time spent on bringing in the incoming client so far, without waiting */
    uint64_t last_ns, settled_until_ns;
    uint64_t memory_gone_ns; /* the last time that a client other than the incoming one gave memory back, or that a
                                client was removed with memory on the device */
};

void facet_residence_init(struct facet_residence *residence, const struct facet_residence_config *config,
                          uint64_t now_ns);

/* Returns the client's index; -1: all FACET_RESIDENCE_CLIENTS are used. `weight_milli` 0 counts as best effort. */
int facet_residence_add(struct facet_residence *residence, uint32_t weight_milli);
void facet_residence_remove(struct facet_residence *residence, int client);
void facet_residence_set_weight(struct facet_residence *residence, int client, uint32_t weight_milli);

/*
 * One step: decides every client's most_bytes from its demand. Returns the latest time at which it must be called
 * again; FACET_RESIDENCE_NEVER when only a new demand can change anything.
 */
uint64_t facet_residence_step(struct facet_residence *residence, uint64_t now_ns);

#endif
