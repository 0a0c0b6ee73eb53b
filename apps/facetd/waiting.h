/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections whose callers have something to do: to send the rest of a request, or to read an answer.
 *
 * Owns: which of them has waited longest, and hanging up on it where the room for connections runs out: callers that do
 * nothing must not keep others from being served. Never: closes a descriptor.
 *
 * Thread rule: functions may be called on any thread at once. A connection is on the list from waiting_begin() to
 * waiting_end(), and its descriptor stays open for as long.
 */
#ifndef FACETD_WAITING_H
#define FACETD_WAITING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define WAITING_MOST 512

/* A caller that is at work sends all of a request in less. */
#define WAITING_LEAST_NS (UINT64_C(1000) * 1000 * 1000)

struct waiting {
    pthread_mutex_t lock;
    unsigned count;
    struct {
        int fd;
        uint64_t since_ns;
    } connections[WAITING_MOST];
};

void waiting_init(struct waiting *waiting);
void waiting_clear(struct waiting *waiting);

void waiting_begin(struct waiting *waiting, int fd, uint64_t now_ns);

/* The caller has done its part. False: the connection was hung up on meanwhile, and its caller is to hear nothing more.
 */
bool waiting_end(struct waiting *waiting, int fd);

/* Hangs up on the one that has waited longest, if for WAITING_LEAST_NS: whoever reads or writes it sees its end. */
bool waiting_hang_up(struct waiting *waiting, uint64_t now_ns);

#endif
