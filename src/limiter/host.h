/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object behind a handle of facet/limiter.h: a folder of segments, and the processes registered in them.
 *
 * Owns: struct facet_limiter and its workers. Never: is used outside this room, or decides an admission: memory.h and
 * pace.h do.
 *
 * A registered process owns a slot like an interposed process. But the handle holds the slot's lock, on a file
 * description that all registrations of a worker share, and notices the process's death through a pidfd. When the
 * process of the handle dies, the kernel drops the locks. So registrations end with the handle, and the next process
 * that checks clears the slots.
 *
 * Thread rule: each handle has one lock, held for microseconds. Only slow paths make system calls under it.
 */
#ifndef FACET_LIMITER_HOST_H
#define FACET_LIMITER_HOST_H

#include <pthread.h>

#include <facet/limiter.h>

#include "base/paths.h"
#include "limiter/owner_inside.h"

/* Room for <dir>/<worker> and for <dir>/.devices/<device>.lock. */
#define FACET_HOST_PATH_SIZE (FACET_PATH_SIZE + 80)

/* A registered process; its index in the worker's table is that of its slot. */
struct facet_host_process {
    int32_t pid; /* 0: no process is registered */
    int pidfd;
};

struct facet_host_worker {
    struct facet_host_worker *next;
    char id[FACET_NAME_SIZE];
    uint64_t device_memory_bytes;
    struct facet_owner *owner;
    int slot_locks_fd; /* carries the locks of the registered processes' slots */
    uint32_t count;    /* one past the index of the last registered process */
    struct facet_host_process processes[FACET_SEGMENT_SLOTS];
};

struct facet_limiter {
    char dir[FACET_PATH_SIZE];
    int folder_lock_fd; /* its lock shows that this process manages the folder */
    pthread_mutex_t lock;
    struct facet_host_worker *workers;
};

/* Checks the arguments, locks the handle and finds the worker. On success facet_host_unlock() follows. */
enum facet_status facet_host_lock_worker(struct facet_limiter *limiter, const char *id,
                                         struct facet_host_worker **ret_worker, struct facet_error *error);
void facet_host_unlock(struct facet_limiter *limiter);

/* The worker of this handle with that id; NULL when there is none. The caller holds the lock. */
struct facet_host_worker *facet_host_find_worker(struct facet_limiter *limiter, const char *id);

/* Ends all registrations and forgets the worker, which stays in its folder. NULL is allowed. */
void facet_host_worker_close(struct facet_host_worker *worker);

/* Maintains a worker: reclaims dead processes, freezes idle resources, and sets the gate. */
void facet_host_maintain_worker(struct facet_host_worker *worker, uint64_t now_ns);
/* Closes the gate while compute is frozen, and opens it as the worker's limit asks. */
void facet_host_set_gate(struct facet_host_worker *worker);

/* The slot of a registered process. The message of FACET_NOT_FOUND names the process and the worker. */
enum facet_status facet_host_find_process(const struct facet_host_worker *worker, int32_t pid, uint32_t *ret_index,
                                          struct facet_error *error);
void facet_host_forget_process(struct facet_host_worker *worker, uint32_t index);

/* Gives back the memory of dead processes, registered or interposed. */
void facet_host_reap_dead(struct facet_host_worker *worker);

/* Whether a caller's struct that begins with its size has all fields that are known here. */
enum facet_status facet_host_check_size(const char *argument, uint32_t size, size_t expected,
                                        struct facet_error *error);

#endif
