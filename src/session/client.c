/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the life of a child behind a session: opening, losing, closing. Never: makes a call; client_call.c does. */
#include "session/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "session/load.h"
#include "session/structs.h"
#include "session/transport.h"

/* How long a child whose socket closed may take to end, so that its supervisor can report how it ended. The time is
 * long because a loaded machine is slow; a caller waits for all of it only when the child never ends. */
#define ENDING_TIMEOUT_NS (10 * FACET_NS_PER_S)

enum { HOW_SIZE = 96 };

const char *facet_client_span(uint64_t ns, char *ret_text, size_t size)
{
    bool is_whole_seconds = ns % FACET_NS_PER_S == 0;

    snprintf(ret_text, size, "%" PRIu64 " %s", ns / (is_whole_seconds ? FACET_NS_PER_S : FACET_NS_PER_MS),
             is_whole_seconds ? "s" : "ms");
    return ret_text;
}

static enum facet_status init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int errnum = pthread_condattr_init(&attributes);

    if (errnum != 0)
        return FACET_NO_MEMORY;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    errnum = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return errnum == 0 ? FACET_OK : FACET_NO_MEMORY;
}

enum facet_status facet_client_init(struct facet_client *client, struct facet_error *error)
{
    if (!facet_origin_mark(&client->origin))
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a session");
    if (init_condition(&client->changed) != FACET_OK) {
        facet_origin_clear(&client->origin);
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a session");
    }
    pthread_mutex_init(&client->lock, NULL);
    client->child = FACET_CHILD_NONE;
    for (size_t i = 0; i < FACET_CLIENT_CHANNELS; i++)
        client->channels[i].fd = -1;
    return FACET_OK;
}

/* A channel with a call under way is closed by the thread that makes the call. */
static void close_channels(struct facet_client *client)
{
    for (size_t i = 0; i < FACET_CLIENT_CHANNELS; i++) {
        struct facet_client_channel *channel = &client->channels[i];

        if (channel->busy || channel->fd < 0)
            continue;
        close(channel->fd);
        channel->fd = -1;
    }
}

void facet_client_destroy(struct facet_client *client)
{
    close_channels(client);
    facet_origin_clear(&client->origin);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->lock);
}

enum facet_status facet_client_start(struct facet_client *client, struct facet_error *error)
{
    client->opened_by_ns = facet_clock_now_ns() + client->open_deadline_ns;
    return facet_child_start(client->path, client->abi_minor, &client->child, error);
}

/* The child's activity, according to its last report. */
static const char *stage_text(uint32_t report)
{
    static const char *const texts[] = {
        [FACET_REPORT_LOADING] = "loading",
        [FACET_REPORT_ENTERING] = "in its entry point",
        [FACET_REPORT_OPENING] = "opening",
    };

    return report < sizeof texts / sizeof texts[0] ? texts[report] : "ending";
}

/* Ends a child that did not get through a stage of its life, and says why. */
static enum facet_status end_failed_stage(struct facet_client *client, enum facet_transport result, const char *stage,
                                          uint64_t limit_ns, struct facet_error *error)
{
    bool late = result == FACET_TRANSPORT_LATE;
    char how[HOW_SIZE], span[32];

    facet_child_end(&client->child, late ? 0 : ENDING_TIMEOUT_NS, how, sizeof how);
    if (late)
        return facet_error_set(error, FACET_TIMEOUT, "gave no answer within %s while %s",
                               facet_client_span(limit_ns, span, sizeof span), stage);
    return facet_error_set(error, FACET_INTERNAL, "%s while %s", how, stage);
}

static enum facet_transport receive_report(struct facet_client *client, uint64_t deadline_ns,
                                           struct facet_report_packet *ret_packet)
{
    int fd;
    enum facet_transport result =
        facet_transport_receive_packet(client->child.control, deadline_ns, ret_packet, sizeof *ret_packet, &fd);

    if (result != FACET_TRANSPORT_OK)
        return result;
    if (fd >= 0)
        close(fd);
    return ret_packet->size == sizeof *ret_packet ? FACET_TRANSPORT_OK : FACET_TRANSPORT_FAILED;
}

/* Makes the packet's texts terminated and printable, in place. */
static void clean_texts(struct facet_report_packet *packet)
{
    struct facet_report_packet dirty = *packet;

#define CLEAN(field) facet_text_copy(packet->field, sizeof packet->field, dirty.field, sizeof dirty.field)
    CLEAN(name);
    CLEAN(version);
    CLEAN(description);
    CLEAN(error.argument);
    CLEAN(error.message);
#undef CLEAN
}

static enum facet_status open_refused(struct facet_client *client, struct facet_report_packet *packet,
                                      struct facet_error *error)
{
    char how[HOW_SIZE];

    facet_child_end(&client->child, ENDING_TIMEOUT_NS, how, sizeof how);
    clean_texts(packet);
    packet->error.status = facet_status_from_name(facet_status_name(packet->error.status));
    if (packet->error.status == FACET_OK)
        packet->error.status = FACET_INTERNAL;
    if (error)
        *error = packet->error;
    return packet->error.status;
}

static enum facet_status session_opened(struct facet_client *client, struct facet_report_packet *packet,
                                        struct facet_report_packet *ret_opened, struct facet_error *error)
{
    char how[HOW_SIZE];

    clean_texts(packet);
    if (!facet_load_is_name(packet->name) || packet->abi_major != FACET_PROVIDER_ABI_MAJOR ||
        packet->abi_minor > client->abi_minor) {
        facet_child_end(&client->child, 0, how, sizeof how);
        return facet_error_set(
            error, FACET_CORRUPT,
            "describes itself as '%s' of ABI %u.%u, expected a provider's name and ABI %u.0 to %u.%u", packet->name,
            packet->abi_major, packet->abi_minor, FACET_PROVIDER_ABI_MAJOR, FACET_PROVIDER_ABI_MAJOR,
            client->abi_minor);
    }
    pthread_mutex_lock(&client->lock);
    client->child_number++;
    client->open = true;
    pthread_mutex_unlock(&client->lock);
    *ret_opened = *packet;
    return FACET_OK;
}

enum facet_status facet_client_wait_until_open(struct facet_client *client, struct facet_report_packet *ret_opened,
                                               struct facet_error *error)
{
    uint32_t stage = FACET_REPORT_LOADING;

    for (;;) {
        struct facet_report_packet packet;
        enum facet_transport result = receive_report(client, client->opened_by_ns, &packet);

        if (result != FACET_TRANSPORT_OK)
            return end_failed_stage(client, result, stage_text(stage), client->open_deadline_ns, error);
        if (packet.report == FACET_REPORT_REFUSED)
            return open_refused(client, &packet, error);
        if (packet.report == FACET_REPORT_OPENED)
            return session_opened(client, &packet, ret_opened, error);
        stage = packet.report;
    }
}

/* Names the operations under way, like "memory.copy or memory.fill". The child was lost during one of them. */
static void name_operations(const struct facet_client *client, char *ret_names, size_t size)
{
    size_t used = 0;

    ret_names[0] = '\0';
    for (size_t i = 0; i < FACET_CLIENT_CHANNELS; i++) {
        const struct facet_client_channel *channel = &client->channels[i];

        if (!channel->busy || channel->child != client->child_number || strstr(ret_names, channel->operation_name))
            continue;
        used += (size_t)snprintf(ret_names + used, size - used, "%s%s", used ? " or " : "", channel->operation_name);
        if (used >= size)
            return;
    }
}

static void lose_client(struct facet_client *client, const char *how)
{
    char names[160], end[HOW_SIZE];

    name_operations(client, names, sizeof names);
    facet_child_end(&client->child, how ? 0 : ENDING_TIMEOUT_NS, end, sizeof end);
    if (how)
        facet_error_set(&client->reason, FACET_DEVICE_LOST, "%s", how);
    else
        facet_error_set(&client->reason, FACET_DEVICE_LOST, "%s %s%s", end, names[0] ? "during " : "between two calls",
                        names);
    client->open = false;
    close_channels(client);
    pthread_cond_broadcast(&client->changed);
}

enum facet_status facet_client_lose(struct facet_client *client, unsigned child, const char *how,
                                    struct facet_error *error)
{
    pthread_mutex_lock(&client->lock);
    if (client->open && client->child_number == child)
        lose_client(client, how);
    if (error)
        *error = client->reason;
    pthread_mutex_unlock(&client->lock);
    return FACET_DEVICE_LOST;
}

bool facet_client_alive(struct facet_client *client, struct facet_error *error)
{
    pthread_mutex_lock(&client->lock);
    if (client->open && facet_child_has_ended(&client->child))
        lose_client(client, NULL);
    bool alive = client->open;
    if (!alive && error)
        *error = client->reason;
    pthread_mutex_unlock(&client->lock);
    return alive;
}

enum facet_status facet_client_close(struct facet_client *client, struct facet_error *error)
{
    const struct facet_order_packet order = {FACET_ORDER_CLOSE};
    struct facet_report_packet packet;
    char how[HOW_SIZE];

    pthread_mutex_lock(&client->lock);
    bool was_open = client->open;
    client->open = false;
    facet_error_set(&client->reason, FACET_DEVICE_LOST, "the session is closed");
    close_channels(client);
    pthread_mutex_unlock(&client->lock);
    if (!was_open) {
        /* A child that has not reported the session open may still run; one that was lost or refused has ended. */
        facet_child_end(&client->child, 0, how, sizeof how);
        return FACET_OK;
    }

    uint64_t deadline = facet_clock_now_ns() + client->call_deadline_ns;
    enum facet_transport result = facet_transport_send_packet(client->child.control, &order, sizeof order, -1);
    if (result == FACET_TRANSPORT_OK)
        result = receive_report(client, deadline, &packet);
    if (result != FACET_TRANSPORT_OK)
        return end_failed_stage(client, result, "closing", client->call_deadline_ns, error);
    if (!facet_child_end(&client->child, ENDING_TIMEOUT_NS, how, sizeof how))
        return facet_error_set(error, FACET_INTERNAL, "%s while closing", how);
    return FACET_OK;
}
