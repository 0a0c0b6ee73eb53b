/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: registering other processes with a worker, and noticing their death.
 * Never: believes a process id for longer than the pidfd that stands for it.
 */
#include <errno.h>
#include <poll.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "limiter/host.h"
#include "limiter/slot.h"

/* A pidfd becomes readable when its process has ended, whether or not its parent has waited for it. */
static bool has_ended(int pidfd)
{
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};

    return poll(&ended, 1, 0) == 1;
}

void facet_host_forget_process(struct facet_host_worker *worker, uint32_t index)
{
    struct facet_host_process *process = &worker->processes[index];

    facet_slot_clear(&worker->owner->usage->slots[index]);
    facet_slot_unlock(worker->slot_locks_fd, FACET_SLOT_LOCK_OFFSET(index));
    close(process->pidfd);
    *process = (struct facet_host_process){0};
}

static void forget_dead(struct facet_host_worker *worker)
{
    struct pollfd ended[FACET_SEGMENT_SLOTS];

    for (uint32_t i = 0; i < worker->count; i++)
        ended[i] = (struct pollfd){.fd = worker->processes[i].pid ? worker->processes[i].pidfd : -1, .events = POLLIN};
    if (poll(ended, worker->count, 0) <= 0)
        return;
    for (uint32_t i = 0; i < worker->count; i++)
        if (ended[i].revents)
            facet_host_forget_process(worker, i);
}

void facet_host_reap_dead(struct facet_host_worker *worker)
{
    forget_dead(worker);
    facet_owner_reap(worker->owner);
}

static bool find_process(const struct facet_host_worker *worker, int32_t pid, uint32_t *ret_index)
{
    for (uint32_t i = 0; i < worker->count; i++)
        if (worker->processes[i].pid == pid) {
            *ret_index = i;
            return true;
        }
    return false;
}

enum facet_status facet_host_find_process(const struct facet_host_worker *worker, int32_t pid, uint32_t *ret_index,
                                          struct facet_error *error)
{
    if (pid > 0 && find_process(worker, pid, ret_index))
        return FACET_OK;
    return facet_error_argument(error, FACET_NOT_FOUND, "pid", "process %d is not registered in worker '%s'", pid,
                                worker->id);
}

/* Skips the slots of this handle's other processes: a lock does not exclude the handle that holds it. */
static enum facet_status take_slot(struct facet_host_worker *worker, int32_t pid, uint32_t *ret_index,
                                   struct facet_error *error)
{
    struct facet_slot_identity identity;
    int result = 0;

    facet_slot_identify(pid, &identity);
    for (uint32_t i = 0; i < FACET_SEGMENT_SLOTS && !result; i++)
        if (!worker->processes[i].pid && facet_slot_take(worker->owner->policy, worker->owner->usage,
                                                         worker->slot_locks_fd, i, &identity, &result)) {
            *ret_index = i;
            return FACET_OK;
        }
    if (result)
        return facet_error_errno(error, result, "making room for one more process in worker '%s'", worker->id);
    return facet_error_set(error, FACET_BUSY, "worker '%s' has %u processes, the most that a worker may have",
                           worker->id, FACET_SEGMENT_SLOTS);
}

static enum facet_status open_process(int32_t pid, int *ret_pidfd, struct facet_error *error)
{
    FACET_CLEANUP_FD int pidfd = pidfd_open(pid, 0);

    if (pidfd < 0 && errno != ESRCH)
        return facet_error_errno(error, errno, "watching process %d", pid);
    if (pidfd < 0 || has_ended(pidfd))
        return facet_error_argument(error, FACET_NOT_FOUND, "pid", "there is no process %d", pid);
    *ret_pidfd = FACET_TAKE_FD(pidfd);
    return FACET_OK;
}

static enum facet_status add_process(struct facet_host_worker *worker, int32_t pid, struct facet_error *error)
{
    FACET_CLEANUP_FD int pidfd = -1;
    uint32_t index = 0;

    facet_host_reap_dead(worker);
    if (find_process(worker, pid, &index))
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "pid", "process %d is in worker '%s' already", pid,
                                    worker->id);
    enum facet_status status = open_process(pid, &pidfd, error);
    if (status != FACET_OK)
        return status;
    status = take_slot(worker, pid, &index, error);
    if (status != FACET_OK)
        return status;
    worker->processes[index] = (struct facet_host_process){.pid = pid, .pidfd = FACET_TAKE_FD(pidfd)};
    if (worker->count <= index)
        worker->count = index + 1;
    return FACET_OK;
}

enum facet_status facet_limiter_process_register(struct facet_limiter *limiter, const char *id, int32_t pid,
                                                 struct facet_error *error)
{
    struct facet_host_worker *worker;

    if (pid <= 0)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "pid", "process id %d: expected a positive one",
                                    pid);
    enum facet_status status = facet_host_lock_worker(limiter, id, &worker, error);
    if (status != FACET_OK)
        return status;
    status = add_process(worker, pid, error);
    facet_host_unlock(limiter);
    return status;
}
