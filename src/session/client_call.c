/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: channels, and one call through one of them. Never: ends a child; client.c does. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/quiet.h"
#include "session/client.h"
#include "session/transport.h"

/* A channel that no call uses: one with a socket if there is one, else one that needs a socket. NULL: all are busy. */
static struct facet_client_channel *idle_channel(struct facet_client *client)
{
    struct facet_client_channel *unconnected = NULL;

    for (size_t i = 0; i < FACET_CLIENT_CHANNELS; i++) {
        struct facet_client_channel *channel = &client->channels[i];

        if (channel->busy)
            continue;
        if (channel->fd >= 0)
            return channel;
        unconnected = channel;
    }
    return unconnected;
}

/* Makes a pair of sockets and hands the other end to the child. */
static enum facet_status make_channel(struct facet_client *client, struct facet_client_channel *channel,
                                      struct facet_error *error)
{
    const struct facet_order_packet order = {FACET_ORDER_CHANNEL};
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return facet_error_errno(error, errno, "no socket for a call");
    FACET_CLEANUP_FD int ours = ends[0];
    FACET_CLEANUP_FD int theirs = ends[1];
    /* Only FAILED is an error here. When the child is gone, sending the call over the channel fails and reports it. */
    if (facet_transport_send_packet(client->child.control, &order, sizeof order, theirs) == FACET_TRANSPORT_FAILED)
        return facet_error_errno(error, errno, "no channel for a call");
    channel->fd = FACET_TAKE_FD(ours);
    channel->child = client->child_number;
    return FACET_OK;
}

/* Called with the lock held. */
static enum facet_status take_channel(struct facet_client *client, uint64_t deadline_ns,
                                      struct facet_client_channel **ret_channel, struct facet_error *error)
{
    const struct timespec deadline = facet_ns_timespec(deadline_ns);

    for (;;) {
        if (!client->open) {
            if (error)
                *error = client->reason;
            return FACET_DEVICE_LOST;
        }
        struct facet_client_channel *channel = idle_channel(client);
        if (channel) {
            *ret_channel = channel;
            return channel->fd >= 0 ? FACET_OK : make_channel(client, channel, error);
        }
        if (pthread_cond_timedwait(&client->changed, &client->lock, &deadline) == ETIMEDOUT)
            return facet_error_set(error, FACET_BUSY, "%d calls are under way", FACET_CLIENT_CHANNELS);
    }
}

static enum facet_status acquire_channel(struct facet_client *client, const char *operation, uint64_t deadline_ns,
                                         struct facet_client_channel **ret_channel, struct facet_error *error)
{
    struct facet_client_channel *channel = NULL;

    pthread_mutex_lock(&client->lock);
    enum facet_status status = take_channel(client, deadline_ns, &channel, error);
    if (status == FACET_OK) {
        channel->busy = true;
        channel->operation_name = operation;
        *ret_channel = channel;
    }
    pthread_mutex_unlock(&client->lock);
    return status;
}

static void release_channel(struct facet_client *client, struct facet_client_channel *channel)
{
    pthread_mutex_lock(&client->lock);
    channel->busy = false;
    if (!client->open || channel->child != client->child_number) {
        close(channel->fd);
        channel->fd = -1;
    }
    pthread_cond_signal(&client->changed);
    pthread_mutex_unlock(&client->lock);
}

/* A memory file of exactly `size` bytes, which no holder can shrink or grow. */
static int make_bulk(uint64_t size)
{
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    FACET_CLEANUP_FD int fd = memfd_create("facet-bulk", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (size > INT64_MAX || fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -1;
    return FACET_TAKE_FD(fd);
}

static bool fill_bulk(int fd, const char *bytes, uint64_t size)
{
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    for (uint64_t at = 0; at < size;) {
        ssize_t written = pwrite(fd, bytes + at, size - at, (off_t)at);
        if (written <= 0)
            return false;
        at += (uint64_t)written;
    }
    return true;
}

static bool drain_bulk(int fd, char *bytes, uint64_t size)
{
    for (uint64_t at = 0; at < size;) {
        ssize_t got = pread(fd, bytes + at, size - at, (off_t)at);
        if (got <= 0)
            return false;
        at += (uint64_t)got;
    }
    return true;
}

/*
 * An answer up to this size needs no allocation. The answer of each operation that creates an object is smaller, so the
 * handle of an object that the child has made is never lost for want of memory.
 */
#define ANSWER_ROOM 1024

/* One call: its request, and the file for its bulk data. */
struct exchange {
    const struct facet_call *call;
    const char *operation;
    struct facet_wire_writer request;
    const struct facet_argument *bulk; /* NULL: none */
    enum facet_parameter_kind bulk_kind;
    int bulk_fd;
    uint64_t timeout_ns, deadline_ns;
};

static enum facet_status pack_call(struct exchange *exchange, struct facet_error *error)
{
    const struct facet_argument *bulk = facet_call_bulk(exchange->call, &exchange->bulk_kind);

    facet_call_encode(exchange->call, &exchange->request);
    if (exchange->request.no_memory)
        return facet_error_set(error, FACET_NO_MEMORY, "%s: no memory for a request", exchange->operation);
    if (exchange->request.failed)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "%s: more than %u bytes of arguments", exchange->operation,
                               FACET_WIRE_MAX);
    exchange->bulk = bulk;
    if (!bulk)
        return FACET_OK;
    exchange->bulk_fd = make_bulk(bulk->number);
    if (exchange->bulk_fd < 0 ||
        (exchange->bulk_kind == FACET_KIND_DATA && !fill_bulk(exchange->bulk_fd, bulk->input, bulk->number)))
        return facet_error_errno(error, errno, "%s: no memory to pass %" PRIu64 " bytes", exchange->operation,
                                 bulk->number);
    return FACET_OK;
}

static void free_exchange(struct exchange *exchange)
{
    facet_wire_free(&exchange->request);
    if (exchange->bulk_fd >= 0)
        close(exchange->bulk_fd);
}

static enum facet_status lose_after_transport(struct facet_client *client, const struct facet_client_channel *channel,
                                              const struct exchange *exchange, enum facet_transport result,
                                              struct facet_error *error)
{
    char how[160], span[32];

    if (result == FACET_TRANSPORT_CLOSED)
        return facet_client_lose(client, channel->child, NULL, error);
    if (result == FACET_TRANSPORT_LATE)
        snprintf(how, sizeof how, "gave no answer to %s within %s", exchange->operation,
                 facet_client_span(exchange->timeout_ns, span, sizeof span));
    else
        snprintf(how, sizeof how, "broke the connection during %s", exchange->operation);
    return facet_client_lose(client, channel->child, how, error);
}

/* Bulk data is copied last, after the answer was checked. Its file cannot shrink, so the copy does not fail halfway. */
static enum facet_status decode_answer(struct facet_client *client, const struct facet_client_channel *channel,
                                       const struct exchange *exchange, const uint8_t *bytes, size_t size,
                                       struct facet_error *error)
{
    struct facet_wire_reader reader = {.bytes = bytes, .left = size};
    struct facet_error reason;
    bool broken;
    enum facet_status status = facet_call_decode_answer(exchange->call, &reader, &broken, &reason);

    if (broken)
        return facet_client_lose(client, channel->child, reason.message, error);
    if (status != FACET_OK && error)
        *error = reason;
    if (status == FACET_OK && exchange->bulk && exchange->bulk_kind == FACET_KIND_RET_DATA &&
        !drain_bulk(exchange->bulk_fd, exchange->bulk->output, exchange->bulk->number))
        return facet_error_errno(error, errno,
                                 "%s: the %" PRIu64
                                 " bytes of its result cannot be read from the memory shared with the child",
                                 exchange->operation, exchange->bulk->number);
    return status;
}

static enum facet_status exchange_messages(struct facet_client *client, const struct facet_client_channel *channel,
                                           const struct exchange *exchange, struct facet_error *error)
{
    int fd = exchange->bulk ? exchange->bulk_fd : facet_call_fd(exchange->call);
    _Alignas(max_align_t) uint8_t room[ANSWER_ROOM];
    FACET_CLEANUP_FD int received_fd = -1;
    uint8_t *bytes = NULL;
    size_t size;
    enum facet_transport result =
        facet_transport_send(channel->fd, exchange->request.bytes, exchange->request.size, fd, exchange->deadline_ns);

    if (result == FACET_TRANSPORT_OK)
        result =
            facet_transport_receive(channel->fd, exchange->deadline_ns, room, sizeof room, &bytes, &size, &received_fd);
    if (result == FACET_TRANSPORT_NO_MEMORY)
        return facet_error_set(error, FACET_NO_MEMORY, "%s: no memory for the answer", exchange->operation);
    if (result != FACET_TRANSPORT_OK)
        return lose_after_transport(client, channel, exchange, result, error);
    enum facet_status status = decode_answer(client, channel, exchange, bytes, size, error);
    if (bytes != room)
        free(bytes);
    return status;
}

static enum facet_status carry_out_call(struct facet_client *client, struct exchange *exchange,
                                        struct facet_error *error)
{
    struct facet_client_channel *channel = NULL;
    uint64_t now = facet_clock_now_ns();

    exchange->timeout_ns = facet_call_timeout(exchange->call, client->call_deadline_ns);
    exchange->deadline_ns = exchange->timeout_ns < UINT64_MAX - now ? now + exchange->timeout_ns : UINT64_MAX;
    enum facet_status status = acquire_channel(client, exchange->operation, exchange->deadline_ns, &channel, error);
    if (status != FACET_OK)
        return status;
    status = exchange_messages(client, channel, exchange, error);
    release_channel(client, channel);
    return status;
}

enum facet_status facet_client_call(struct facet_client *client, const struct facet_call *call,
                                    struct facet_error *error)
{
    struct exchange exchange = {.call = call, .operation = facet_operations[call->operation].name, .bulk_fd = -1};

    if (!client)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "instance", "instance: expected a value, not NULL");
    if (facet_origin_is_parent(&client->origin))
        return facet_error_set(error, FACET_BAD_STATE,
                               "the session is of the process that this one was forked from; open one here");
    enum facet_status status = facet_call_check(call, error);
    if (status == FACET_OK)
        status = pack_call(&exchange, error);
    if (status == FACET_OK)
        status = carry_out_call(client, &exchange, error);
    free_exchange(&exchange);
    return status;
}
