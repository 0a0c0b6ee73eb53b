/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the host's reads and writes of buffers, in the order of tasks. Never: uses a runner: the calling thread copies.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "vgpu/balance/balancer.h"
#include "vgpu/driver.h"

/* One access by the host, and the job that gives it its place in the order of tasks. */
struct access {
    struct facet_job job;
    struct facet_job_use use;
    uint64_t offset, bytes;
    const void *data;
    void *ret_data;
};

/* With the lock held. Afterwards the buffer cannot be freed, because a job uses it. */
static enum facet_status enter_access(struct facet_balancer *balancer, struct access *access, uint64_t number,
                                      struct facet_error *error)
{
    struct facet_buffer *buffer = facet_buffer_find(balancer, number, error);

    if (!buffer)
        return FACET_NOT_FOUND;
    if (access->offset > buffer->bytes || access->bytes > buffer->bytes - access->offset)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "bytes",
                                    "bytes %" PRIu64 " from offset %" PRIu64 ": the buffer has %" PRIu64, access->bytes,
                                    access->offset, buffer->bytes);
    access->use = (struct facet_job_use){.job = &access->job, .buffer = buffer, .access = FACET_ARGUMENT_READS};
    if (access->data)
        access->use.access |= FACET_ARGUMENT_WRITES;
    if (access->data && access->bytes == buffer->bytes)
        access->use.access = FACET_ARGUMENT_WRITES; /* the earlier content does not matter */
    access->job = (struct facet_job){
        .of_host = true, .previous_member = FACET_BALANCE_NONE, .uses_count = 1, .uses = &access->use};
    enum facet_status status = facet_job_enter(balancer, &access->job, error);
    while (status == FACET_OK && access->job.place != FACET_JOB_TAKEN && access->job.place != FACET_JOB_RELEASED)
        pthread_cond_wait(&balancer->job_over, &balancer->lock);
    if (status == FACET_OK && access->job.is_over)
        status = facet_error_set(error, access->job.end_status,
                                 "buffer 0x%" PRIx64 " is lost, or was to be written by a task that failed", number);
    return status;
}

static enum facet_status read_buffer(struct facet_balancer *balancer, struct access *access, struct facet_error *error)
{
    struct facet_buffer *buffer = access->use.buffer;

    pthread_mutex_lock(&balancer->lock);
    bool never_written = buffer->never_written, valid = buffer->host_valid;
    pthread_mutex_unlock(&balancer->lock);
    if (never_written)
        memset(access->ret_data, 0, (size_t)access->bytes);
    else if (valid)
        memcpy(access->ret_data, buffer->host + access->offset, (size_t)access->bytes);
    else
        return facet_buffer_read(balancer, &access->job, buffer, access->offset, access->ret_data, access->bytes,
                                 error);
    return FACET_OK;
}

/* Returns the earlier value. */
static bool set_never_written(struct facet_balancer *balancer, struct facet_buffer *buffer, bool never_written)
{
    pthread_mutex_lock(&balancer->lock);
    bool before = buffer->never_written;

    buffer->never_written = never_written;
    pthread_mutex_unlock(&balancer->lock);
    return before;
}

/* A write of the whole buffer need not fetch the bytes that it overwrites. */
static enum facet_status fetch_before_write(struct facet_balancer *balancer, struct access *access,
                                            struct facet_error *error)
{
    struct facet_buffer *buffer = access->use.buffer;

    if (access->use.access != FACET_ARGUMENT_WRITES)
        return facet_buffer_fetch(balancer, &access->job, buffer, error);
    bool before = set_never_written(balancer, buffer, true);
    enum facet_status status = facet_buffer_fetch(balancer, &access->job, buffer, error);
    if (status != FACET_OK)
        set_never_written(balancer, buffer, before);
    return status;
}

/* Writes to the host's copy, which becomes the only valid one. */
static enum facet_status write_buffer(struct facet_balancer *balancer, struct access *access, struct facet_error *error)
{
    struct facet_buffer *buffer = access->use.buffer;
    enum facet_status status = fetch_before_write(balancer, access, error);

    if (status != FACET_OK)
        return status;
    memcpy(buffer->host + access->offset, access->data, (size_t)access->bytes);
    pthread_mutex_lock(&balancer->lock);
    for (uint32_t i = 0; i < balancer->count; i++)
        buffer->copy[i].valid = false;
    buffer->host_valid = true;
    buffer->never_written = false;
    buffer->lost_by = FACET_OK;
    pthread_mutex_unlock(&balancer->lock);
    return FACET_OK;
}

static enum facet_status run_access(struct facet_balancer *balancer, struct access *access, uint64_t number,
                                    struct facet_error *error)
{
    pthread_mutex_lock(&balancer->lock);
    enum facet_status status = enter_access(balancer, access, number, error);
    if (status == FACET_OK)
        status = facet_buffer_begin_moving(balancer, &access->job, access->use.buffer);
    pthread_mutex_unlock(&balancer->lock);
    if (status != FACET_OK)
        return status;
    status = access->data ? write_buffer(balancer, access, error) : read_buffer(balancer, access, error);
    pthread_mutex_lock(&balancer->lock);
    facet_buffer_end_moving(balancer, access->use.buffer);
    facet_job_end(balancer, &access->job, status, NULL);
    facet_balancer_place_ready(balancer);
    pthread_mutex_unlock(&balancer->lock);
    return status;
}

static enum facet_status check_access(const struct facet_balancer *balancer, const void *data, uint64_t bytes,
                                      struct facet_error *error)
{
    FACET_NEED(balancer, error);
    return data || bytes == 0 ? FACET_OK
                              : facet_error_argument(error, FACET_INVALID_ARGUMENT, "data",
                                                     "data: expected %" PRIu64 " bytes, not NULL", bytes);
}

enum facet_status facet_balancer_write(struct facet_balancer *balancer, uint64_t buffer, uint64_t offset,
                                       const void *data, uint64_t bytes, struct facet_error *error)
{
    struct access access = {.offset = offset, .bytes = bytes, .data = data ? data : ""};
    enum facet_status status = check_access(balancer, data, bytes, error);

    return status == FACET_OK ? run_access(balancer, &access, buffer, error) : status;
}

enum facet_status facet_balancer_read(struct facet_balancer *balancer, uint64_t buffer, uint64_t offset, void *ret_data,
                                      uint64_t bytes, struct facet_error *error)
{
    struct access access = {.offset = offset, .bytes = bytes, .ret_data = ret_data};
    enum facet_status status = check_access(balancer, ret_data, bytes, error);

    return status == FACET_OK ? run_access(balancer, &access, buffer, error) : status;
}
