/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: buffers: their copies, which of them are valid, and moving content between members and the host.
 * Never: copies with the balancer's lock held, or waits for a member's other queued work.
 *
 * No other job changes a buffer while it is copied: job.c makes writers wait for readers and for each other, and only
 * one thread at a time holds `moving`.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "vgpu/balance/balancer.h"
#include "vgpu/driver.h"

/* ---- numbers ---- */

static uint32_t index_of(uint64_t number)
{
    return (uint32_t)number - 1;
}

struct facet_buffer *facet_buffer_find(struct facet_balancer *balancer, uint64_t number, struct facet_error *error)
{
    uint32_t index = index_of(number);
    struct facet_buffer *buffer = index < balancer->buffers_capacity ? balancer->buffers[index] : NULL;

    if (buffer && buffer->number == number)
        return buffer;
    facet_error_argument(error, FACET_NOT_FOUND, "buffer", "buffer 0x%" PRIx64 ": expected a buffer of this balancer",
                         number);
    return NULL;
}

/* Returns a free index of the table, which grows if it is full; buffers_capacity when there is no memory for that. */
static uint32_t find_free_index(struct facet_balancer *balancer)
{
    uint32_t index = balancer->buffers_used_below, room = balancer->buffers_capacity;

    while (index < room && balancer->buffers[index])
        index++;
    balancer->buffers_used_below = index;
    if (index < room)
        return index;
    struct facet_buffer **buffers = realloc(balancer->buffers, (room * 2 + 16) * sizeof(struct facet_buffer *));
    if (!buffers)
        return index;
    memset(buffers + room, 0, (room + 16) * sizeof(struct facet_buffer *));
    balancer->buffers = buffers;
    balancer->buffers_capacity = room * 2 + 16;
    return index;
}

enum facet_status facet_balancer_allocate(struct facet_balancer *balancer, uint64_t bytes, uint64_t *ret_buffer,
                                          struct facet_error *error)
{
    FACET_NEED(balancer, error);
    FACET_NEED(ret_buffer, error);
    if (bytes == 0 || bytes > INT64_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "bytes", "bytes %" PRIu64 ": expected 1 to 2^63 - 1",
                                    bytes);
    struct facet_buffer *buffer = calloc(1, sizeof *buffer + balancer->count * sizeof buffer->copy[0]);
    if (!buffer)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a buffer");
    buffer->bytes = bytes;
    buffer->never_written = true;
    pthread_mutex_lock(&balancer->lock);
    uint32_t index = find_free_index(balancer);
    bool found = index < balancer->buffers_capacity;
    if (found) {
        buffer->number = (uint64_t)++balancer->buffer_generation << 32 | (index + 1);
        balancer->buffers[index] = buffer;
        *ret_buffer = buffer->number;
    }
    pthread_mutex_unlock(&balancer->lock);
    if (found)
        return FACET_OK;
    free(buffer);
    return facet_error_set(error, FACET_NO_MEMORY, "no memory for a buffer");
}

static void free_buffer(struct facet_balancer *balancer, struct facet_buffer *buffer)
{
    for (uint32_t i = 0; buffer && i < balancer->count; i++)
        if (buffer->copy[i].address)
            (void)facet_vgpu_free(balancer->driver, balancer->member[i].id, buffer->copy[i].address, NULL);
    if (buffer)
        free(buffer->host);
    free(buffer);
}

enum facet_status facet_balancer_free(struct facet_balancer *balancer, uint64_t number, struct facet_error *error)
{
    FACET_NEED(balancer, error);
    if (number == 0)
        return FACET_OK;
    pthread_mutex_lock(&balancer->lock);
    struct facet_buffer *buffer = facet_buffer_find(balancer, number, error);
    enum facet_status status = buffer ? FACET_OK : FACET_NOT_FOUND;
    if (buffer && buffer->jobs == 0 && buffer->moving)
        status =
            facet_error_argument(error, FACET_BUSY, "buffer",
                                 "buffer 0x%" PRIx64 ": its content is being copied off a vGPU: try again", number);
    else if (buffer && buffer->jobs > 0)
        status = facet_error_argument(error, FACET_BUSY, "buffer",
                                      "buffer 0x%" PRIx64 ": %" PRIu32 " tasks that are not over use it", number,
                                      buffer->jobs);
    if (status == FACET_OK) {
        balancer->buffers[index_of(number)] = NULL;
        if (index_of(number) < balancer->buffers_used_below)
            balancer->buffers_used_below = index_of(number);
    }
    pthread_mutex_unlock(&balancer->lock);
    if (status == FACET_OK)
        free_buffer(balancer, buffer);
    return status;
}

void facet_buffers_free(struct facet_balancer *balancer)
{
    for (uint32_t i = 0; i < balancer->buffers_capacity; i++)
        free_buffer(balancer, balancer->buffers[i]);
    balancer->buffers_capacity = 0;
}

/* ---- validity: with the lock held ---- */

static void forget_host(struct facet_buffer *buffer)
{
    free(buffer->host);
    buffer->host = NULL;
    buffer->host_valid = false;
}

static bool has_valid_content(const struct facet_balancer *balancer, const struct facet_buffer *buffer)
{
    bool anywhere = buffer->never_written || buffer->host_valid;

    for (uint32_t i = 0; i < balancer->count; i++)
        anywhere = anywhere || buffer->copy[i].valid;
    return anywhere;
}

void facet_buffers_lose(struct facet_balancer *balancer, uint32_t member)
{
    for (uint32_t i = 0; i < balancer->buffers_capacity; i++) {
        struct facet_buffer *buffer = balancer->buffers[i];

        if (!buffer)
            continue;
        buffer->copy[member].address = 0;
        buffer->copy[member].valid = false;
        if (!has_valid_content(balancer, buffer) && buffer->lost_by == FACET_OK)
            buffer->lost_by = FACET_DEVICE_LOST;
    }
}

/* A job wrote the copy on its member, so that copy becomes the only valid one. */
static void mark_newest(struct facet_balancer *balancer, struct facet_buffer *buffer, uint32_t member, bool overwritten)
{
    for (uint32_t i = 0; i < balancer->count; i++)
        buffer->copy[i].valid = false;
    forget_host(buffer);
    buffer->never_written = false;
    buffer->copy[member].valid = buffer->copy[member].address != 0;
    if (!buffer->copy[member].valid)
        buffer->lost_by = FACET_DEVICE_LOST;
    else if (overwritten)
        buffer->lost_by = FACET_OK;
}

void facet_job_leave_buffers(struct facet_balancer *balancer, struct facet_job *job, enum facet_status status)
{
    for (uint32_t i = 0; i < job->uses_count && !job->of_host; i++) {
        struct facet_job_use *use = &job->uses[i];
        bool writes = use->access & FACET_ARGUMENT_WRITES;

        if (use->counts_as_user)
            use->buffer->copy[job->record.member].users--;
        use->counts_as_user = false;
        if (writes && job->launched)
            mark_newest(balancer, use->buffer, job->record.member,
                        status == FACET_OK && use->access == FACET_ARGUMENT_WRITES);
        if (writes && status != FACET_OK && status != FACET_BAD_STATE)
            use->buffer->lost_by = status;
    }
}

/* ---- moving: one thread at a time moves a buffer ---- */

static bool is_given_up(const struct facet_balancer *balancer, const struct facet_job *job)
{
    return job->cancelled || (balancer->closing && !job->of_host);
}

enum facet_status facet_buffer_begin_moving(struct facet_balancer *balancer, const struct facet_job *job,
                                            struct facet_buffer *buffer)
{
    while (buffer->moving && !is_given_up(balancer, job))
        pthread_cond_wait(&balancer->buffer_moved, &balancer->lock);
    if (is_given_up(balancer, job))
        return FACET_BAD_STATE;
    buffer->moving = true;
    return FACET_OK;
}

void facet_buffer_end_moving(struct facet_balancer *balancer, struct facet_buffer *buffer)
{
    buffer->moving = false;
    balancer->release_count++;
    pthread_cond_broadcast(&balancer->buffer_moved);
}

static bool is_member_lost(enum facet_status status)
{
    return status == FACET_DEVICE_LOST || status == FACET_NOT_FOUND;
}

/* Whether a later try may succeed: the vGPU is paused, or the device stopped waiting for its long queue. */
static bool is_retriable(enum facet_status status)
{
    return status == FACET_FROZEN || status == FACET_TIMEOUT || status == FACET_BUSY;
}

/* Returns a member with a valid copy, if possible one that is not paused. With the lock held. */
static uint32_t find_source(const struct facet_balancer *balancer, const struct facet_buffer *buffer)
{
    uint32_t source = FACET_BALANCER_NOWHERE;

    for (uint32_t i = 0; i < balancer->count; i++)
        if (buffer->copy[i].valid && (source == FACET_BALANCER_NOWHERE || balancer->member[source].paused))
            source = i;
    return source;
}

enum facet_status facet_buffer_read(struct facet_balancer *balancer, const struct facet_job *job,
                                    struct facet_buffer *buffer, uint64_t offset, void *ret_data, uint64_t bytes,
                                    struct facet_error *error)
{
    enum facet_status status = FACET_BUSY;

    pthread_mutex_lock(&balancer->lock);
    while (is_retriable(status)) {
        uint32_t source = find_source(balancer, buffer);

        if (source == FACET_BALANCER_NOWHERE || is_given_up(balancer, job)) {
            status = is_given_up(balancer, job) ? FACET_BAD_STATE : FACET_DEVICE_LOST;
            break;
        }
        uint64_t address = buffer->copy[source].address + offset, start = facet_clock_now_ns();
        uint32_t id = balancer->member[source].id;

        pthread_mutex_unlock(&balancer->lock);
        status = facet_vgpu_read_idle(balancer->driver, id, address, ret_data, bytes, error);
        pthread_mutex_lock(&balancer->lock);
        if (status == FACET_OK) {
            balancer->copied_out.bytes += bytes;
            balancer->copied_out.ns += facet_clock_now_ns() - start;
        } else if (is_member_lost(status)) {
            facet_member_lose(balancer, source);
            facet_balancer_place_ready(balancer);
            status = FACET_BUSY; /* try again: another member may have a copy */
        } else if (is_retriable(status)) {
            facet_balancer_wait_until(balancer, &balancer->buffer_moved,
                                      facet_clock_now_ns() + balancer->config.interval_ns);
        }
    }
    if (status == FACET_DEVICE_LOST)
        facet_error_set(error, status, "the only copy of buffer 0x%" PRIx64 " was on a device that is lost",
                        buffer->number);
    pthread_mutex_unlock(&balancer->lock);
    return status;
}

enum facet_status facet_buffer_fetch(struct facet_balancer *balancer, const struct facet_job *job,
                                     struct facet_buffer *buffer, struct facet_error *error)
{
    pthread_mutex_lock(&balancer->lock);
    bool valid = buffer->host_valid, zero = buffer->never_written;
    unsigned char *host = buffer->host;
    pthread_mutex_unlock(&balancer->lock);
    if (valid)
        return FACET_OK;
    if (!host)
        host = calloc(1, (size_t)buffer->bytes);
    if (!host)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the %" PRIu64 " bytes of buffer 0x%" PRIx64,
                               buffer->bytes, buffer->number);
    enum facet_status status =
        zero ? FACET_OK : facet_buffer_read(balancer, job, buffer, 0, host, buffer->bytes, error);
    pthread_mutex_lock(&balancer->lock);
    buffer->host = host;
    buffer->host_valid = status == FACET_OK;
    if (status != FACET_OK)
        forget_host(buffer);
    pthread_mutex_unlock(&balancer->lock);
    return status;
}

/* ---- room on a member ---- */

static bool is_in_use(const struct facet_balancer *balancer, const struct facet_buffer *buffer)
{
    uint32_t users = 0;

    for (uint32_t i = 0; i < balancer->count; i++)
        users += buffer->copy[i].users;
    return users > 0 || buffer->moving;
}

/*
 * Takes a copy from the member that is not needed there: a stale one or, with `valid_too`, one whose content is also
 * valid elsewhere. Returns its address, which the caller then owns; 0: there is none.
 */
static uint64_t take_copy(struct facet_balancer *balancer, uint32_t member, bool valid_too)
{
    for (uint32_t i = 0; i < balancer->buffers_capacity; i++) {
        struct facet_buffer *buffer = balancer->buffers[i];

        if (!buffer || buffer->moving || buffer->copy[member].users > 0 || buffer->copy[member].address == 0)
            continue;
        struct facet_buffer_copy old = buffer->copy[member];

        if (old.valid && !valid_too)
            continue;
        buffer->copy[member].valid = false;
        if (has_valid_content(balancer, buffer) || !old.valid) {
            buffer->copy[member].address = 0;
            return old.address;
        }
        buffer->copy[member].valid = true;
    }
    return 0;
}

/* Copies one unused buffer from the member to the host, so that take_copy() can take it. False: no buffer could be
 * copied. */
static bool spill_buffer(struct facet_balancer *balancer, uint32_t member, const struct facet_job *job)
{
    struct facet_buffer *buffer = NULL;

    pthread_mutex_lock(&balancer->lock);
    for (uint32_t i = 0; i < balancer->buffers_capacity && !buffer; i++)
        if (balancer->buffers[i] && balancer->buffers[i]->copy[member].valid &&
            !is_in_use(balancer, balancer->buffers[i]))
            buffer = balancer->buffers[i];
    if (buffer)
        buffer->moving = true;
    pthread_mutex_unlock(&balancer->lock);
    if (!buffer)
        return false;
    enum facet_status status = facet_buffer_fetch(balancer, job, buffer, NULL);
    pthread_mutex_lock(&balancer->lock);
    facet_buffer_end_moving(balancer, buffer);
    pthread_mutex_unlock(&balancer->lock);
    return status == FACET_OK;
}

/*
 * Whether the member is likely to have room soon. A job that has all its memory ends without needing more, and a buffer
 * that is being moved can be taken once it has arrived. With the lock held.
 */
static bool is_about_to_have_room(const struct facet_balancer *balancer, const struct facet_runner *runner)
{
    const struct facet_member *member = &balancer->member[runner->member];

    for (uint32_t i = 0; i < member->runner_count; i++)
        if (member->runners[i].job && member->runners[i].job->pinned)
            return true;
    for (uint32_t i = 0; i < balancer->buffers_capacity; i++)
        if (balancer->buffers[i] && balancer->buffers[i]->moving && balancer->buffers[i]->copy[runner->member].address)
            return true;
    return false;
}

/*
 * Waits until another job or buffer may have given up room. `release_count` is the balancer's counter from when the
 * search for room began. False: no room will come, or the job was given up.
 */
static bool wait_for_released_room(struct facet_runner *runner, const struct facet_job *job, uint64_t release_count)
{
    struct facet_balancer *balancer = runner->balancer;

    pthread_mutex_lock(&balancer->lock);
    bool again = balancer->release_count != release_count;
    if (!again && !is_given_up(balancer, job) && is_about_to_have_room(balancer, runner)) {
        pthread_cond_wait(&balancer->buffer_moved, &balancer->lock);
        again = true;
    }
    again = again && !is_given_up(balancer, job);
    pthread_mutex_unlock(&balancer->lock);
    return again;
}

static bool make_room(struct facet_runner *runner, const struct facet_job *job)
{
    struct facet_balancer *balancer = runner->balancer;

    pthread_mutex_lock(&balancer->lock);
    uint64_t release_count = balancer->release_count;
    uint64_t address = take_copy(balancer, runner->member, false);
    if (!address)
        address = take_copy(balancer, runner->member, true);
    uint32_t id = balancer->member[runner->member].id;
    pthread_mutex_unlock(&balancer->lock);
    if (address)
        return facet_vgpu_free(balancer->driver, id, address, NULL) == FACET_OK;
    return spill_buffer(balancer, runner->member, job) || wait_for_released_room(runner, job, release_count);
}

/* Waits at most 1 ms: freed memory is available once the other runners' work is over. False: the job was given up. */
static bool wait_for_unmap(struct facet_runner *runner, const struct facet_job *job)
{
    struct facet_balancer *balancer = runner->balancer;

    pthread_mutex_lock(&balancer->lock);
    if (!is_given_up(balancer, job))
        facet_balancer_wait_until(balancer, &balancer->buffer_moved, facet_clock_now_ns() + FACET_NS_PER_MS);
    bool wanted = !is_given_up(balancer, job);
    pthread_mutex_unlock(&balancer->lock);
    return wanted;
}

static enum facet_status allocate_copy(struct facet_runner *runner, const struct facet_job *job,
                                       struct facet_buffer *buffer, struct facet_error *error)
{
    struct facet_balancer *balancer = runner->balancer;
    struct facet_member *member = &balancer->member[runner->member];
    uint64_t address = 0;
    enum facet_status status;

    do
        status = facet_vgpu_allocate(balancer->driver, member->id, buffer->bytes, NULL, &address, error);
    while (((status == FACET_QUOTA || status == FACET_NO_SPACE) && make_room(runner, job)) ||
           (status == FACET_BUSY && wait_for_unmap(runner, job)));
    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&balancer->lock);
    bool lost = member->lost;
    if (!lost)
        buffer->copy[runner->member].address = address;
    pthread_mutex_unlock(&balancer->lock);
    return lost ? FACET_DEVICE_LOST : FACET_OK;
}

/* Waits until no other job of the member allocates, then keeps this job's copies in place. With the lock held. */
static enum facet_status begin_pinning(struct facet_runner *runner, struct facet_job *job)
{
    struct facet_balancer *balancer = runner->balancer;
    struct facet_member *member = &balancer->member[runner->member];

    while (member->pinning && !is_given_up(balancer, job))
        pthread_cond_wait(&balancer->buffer_moved, &balancer->lock);
    if (is_given_up(balancer, job))
        return FACET_BAD_STATE;
    member->pinning = true;
    for (uint32_t i = 0; i < job->uses_count; i++) {
        job->uses[i].buffer->copy[runner->member].users++;
        job->uses[i].counts_as_user = true;
    }
    return FACET_OK;
}

/*
 * Allocates memory for all buffers of a job. One job per member allocates at a time, so two jobs never each hold part
 * of the room and wait for the rest.
 */
static enum facet_status pin_buffers(struct facet_runner *runner, struct facet_job *job, struct facet_error *error)
{
    struct facet_balancer *balancer = runner->balancer;

    pthread_mutex_lock(&balancer->lock);
    enum facet_status status = begin_pinning(runner, job);
    bool pinning = status == FACET_OK;
    for (uint32_t i = 0; i < job->uses_count && status == FACET_OK; i++) {
        if (job->uses[i].buffer->copy[runner->member].address)
            continue;
        pthread_mutex_unlock(&balancer->lock);
        status = allocate_copy(runner, job, job->uses[i].buffer, error);
        pthread_mutex_lock(&balancer->lock);
    }
    if (pinning)
        balancer->member[runner->member].pinning = false;
    job->pinned = status == FACET_OK;
    pthread_cond_broadcast(&balancer->buffer_moved);
    pthread_mutex_unlock(&balancer->lock);
    return status;
}

/* ---- bringing content to a member ---- */

static enum facet_status synchronize_runner(struct facet_runner *runner, const struct facet_job *job,
                                            struct facet_error *error)
{
    struct facet_balancer *balancer = runner->balancer;
    enum facet_status status;

    do {
        status = facet_vgpu_synchronize(balancer->driver, balancer->member[runner->member].id, runner->stream,
                                        balancer->config.interval_ns, error);
        pthread_mutex_lock(&balancer->lock);
        if (is_retriable(status) && is_given_up(balancer, job))
            status = FACET_BAD_STATE;
        if (status == FACET_FROZEN)
            facet_balancer_wait_until(balancer, &balancer->buffer_moved,
                                      facet_clock_now_ns() + balancer->config.interval_ns);
        pthread_mutex_unlock(&balancer->lock);
    } while (is_retriable(status));
    return status;
}

/* Writes the content to the member in the order of the runner's stream, and waits until it is written. */
static enum facet_status send_content(struct facet_runner *runner, struct facet_job *job, struct facet_buffer *buffer,
                                      uint64_t address, bool zero, struct facet_error *error)
{
    struct facet_balancer *balancer = runner->balancer;
    uint32_t id = balancer->member[runner->member].id;
    uint64_t start = facet_clock_now_ns();
    enum facet_status status =
        zero ? facet_vgpu_enqueue_fill(balancer->driver, id, runner->stream, address, 0, buffer->bytes, NULL, error)
             : facet_vgpu_enqueue_copy(balancer->driver, id, runner->stream, address, (uintptr_t)buffer->host,
                                       buffer->bytes, FACET_COPY_TO_DEVICE, NULL, error);

    if (status == FACET_BUSY) /* other runners have filled the device's queue */
        status = facet_vgpu_write_idle(balancer->driver, id, address, zero ? NULL : buffer->host, buffer->bytes, error);
    if (status == FACET_OK)
        status = synchronize_runner(runner, job, error);
    pthread_mutex_lock(&balancer->lock);
    if (status == FACET_OK && !zero) {
        uint64_t took = facet_clock_now_ns() - start;

        balancer->copied_in.bytes += buffer->bytes;
        balancer->copied_in.ns += took;
        balancer->member[runner->member].brought_bytes += buffer->bytes;
        balancer->member[runner->member].brought_ns += took;
        job->record.brought_bytes += buffer->bytes;
    }
    pthread_mutex_unlock(&balancer->lock);
    return status;
}

/* Sends the buffer's content unless the member's copy is valid. The caller has set `moving`. */
static enum facet_status provide_content(struct facet_runner *runner, struct facet_job *job,
                                         struct facet_buffer *buffer, bool *ret_broken, struct facet_error *error)
{
    struct facet_balancer *balancer = runner->balancer;
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&balancer->lock);
    struct facet_buffer_copy copy = buffer->copy[runner->member];
    bool zero = buffer->never_written;
    pthread_mutex_unlock(&balancer->lock);
    if (copy.valid)
        return FACET_OK;
    if (!copy.address)
        return FACET_DEVICE_LOST;
    if (!zero) {
        status = facet_buffer_fetch(balancer, job, buffer, error);
        *ret_broken = status != FACET_OK && status != FACET_BAD_STATE;
    }
    return status == FACET_OK ? send_content(runner, job, buffer, copy.address, zero, error) : status;
}

static enum facet_status bring_buffer(struct facet_runner *runner, struct facet_job *job,
                                      const struct facet_job_use *use, bool *ret_broken, struct facet_error *error)
{
    struct facet_balancer *balancer = runner->balancer;
    struct facet_buffer *buffer = use->buffer;
    bool reads = use->access & FACET_ARGUMENT_READS;

    pthread_mutex_lock(&balancer->lock);
    enum facet_status status = facet_buffer_begin_moving(balancer, job, buffer);
    pthread_mutex_unlock(&balancer->lock);
    if (status != FACET_OK)
        return status;
    if (reads)
        status = provide_content(runner, job, buffer, ret_broken, error);
    pthread_mutex_lock(&balancer->lock);
    if (status == FACET_OK && balancer->member[runner->member].lost)
        status = FACET_DEVICE_LOST;
    if (status == FACET_OK && reads)
        buffer->copy[runner->member].valid = true;
    facet_buffer_end_moving(balancer, buffer);
    pthread_mutex_unlock(&balancer->lock);
    return status;
}

enum facet_status facet_job_bring_buffers(struct facet_runner *runner, struct facet_job *job, bool *ret_broken,
                                          struct facet_error *error)
{
    enum facet_status status = pin_buffers(runner, job, error);

    *ret_broken = false;
    for (uint32_t i = 0; i < job->uses_count && status == FACET_OK; i++)
        status = bring_buffer(runner, job, &job->uses[i], ret_broken, error);
    return status == FACET_NOT_FOUND && !*ret_broken ? FACET_DEVICE_LOST : status;
}
