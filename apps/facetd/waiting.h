/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that wait for their callers: to send the rest of a request, or to read an answer.
 *
 * Owns: finding the connection that has waited longest, and hanging up on it when there is no room for more, so that
 * idle callers do not keep others from being served. Never: closes a descriptor.
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

/* A connection is idle after so long; an active caller sends its whole request sooner. */
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

/* Takes a connection off the list. False: it was hung up on meanwhile, and nothing more must be sent to it. */
bool waiting_end(struct waiting *waiting, int fd);

/* Hangs up on the connection that has waited longest, if for WAITING_LEAST_NS. Its reader and writer see its end. */
bool waiting_hang_up(struct waiting *waiting, uint64_t now_ns);

#endif
