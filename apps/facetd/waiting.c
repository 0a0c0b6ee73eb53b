/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the list; see waiting.h. Never: grows beyond the server's connections, so that a search is short. */
#include "waiting.h"

#include <sys/socket.h>

void waiting_init(struct waiting *waiting)
{
    pthread_mutex_init(&waiting->lock, NULL);
    waiting->count = 0;
}

void waiting_clear(struct waiting *waiting)
{
    pthread_mutex_destroy(&waiting->lock);
}

void waiting_begin(struct waiting *waiting, int fd, uint64_t now_ns)
{
    pthread_mutex_lock(&waiting->lock);
    if (waiting->count < WAITING_MOST) {
        waiting->connections[waiting->count].fd = fd;
        waiting->connections[waiting->count++].since_ns = now_ns;
    }
    pthread_mutex_unlock(&waiting->lock);
}

bool waiting_end(struct waiting *waiting, int fd)
{
    unsigned i = 0;

    pthread_mutex_lock(&waiting->lock);
    while (i < waiting->count && waiting->connections[i].fd != fd)
        i++;
    bool found = i < waiting->count;
    if (found)
        waiting->connections[i] = waiting->connections[--waiting->count];
    pthread_mutex_unlock(&waiting->lock);
    return found;
}

bool waiting_hang_up(struct waiting *waiting, uint64_t now_ns)
{
    unsigned oldest = 0;

    pthread_mutex_lock(&waiting->lock);
    for (unsigned i = 1; i < waiting->count; i++)
        if (waiting->connections[i].since_ns < waiting->connections[oldest].since_ns)
            oldest = i;
    bool found = waiting->count && waiting->connections[oldest].since_ns + WAITING_LEAST_NS <= now_ns;
    if (found) {
        shutdown(waiting->connections[oldest].fd, SHUT_RDWR);
        waiting->connections[oldest] = waiting->connections[--waiting->count];
    }
    pthread_mutex_unlock(&waiting->lock);
    return found;
}
