/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: QMP's greeting and capabilities, matching answers to commands. Never: trusts that input is well formed. */
#include "passthrough/attach/qmp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sized.h"
#include "passthrough/attach/draft.h"

#define TIMEOUT_NS (30 * FACET_NS_PER_S)
#define USED_NS    (5 * FACET_NS_PER_S)

/* --- incoming messages --- */

static void note_event(struct facet_qmp *qmp, const json_t *message, const char *event)
{
    const json_t *data = json_object_get(message, "data");
    const char *device = json_string_value(json_object_get(data, "device"));

    /* QEMU also reports parts of a device, which have no id and so no watch. */
    for (uint32_t i = 0; device && i < qmp->watch_count; i++) {
        if (strcmp(qmp->watches[i].id, device) != 0)
            continue;
        qmp->watches[i].deleted |= strcmp(event, "DEVICE_DELETED") == 0;
        /* QEMU before 6.2 does not send this event. */
        qmp->watches[i].refused |= strcmp(event, "DEVICE_UNPLUG_GUEST_ERROR") == 0;
    }
}

static enum facet_status refuse_corrupt(struct facet_error *error, const char *what)
{
    return facet_error_set(error, FACET_CORRUPT, "%s: the process at the socket does not speak QMP", what);
}

/* Receives the next message, an answer or an event. */
static enum facet_status receive_message(struct facet_qmp *qmp, uint64_t until_ns, json_t **ret_message,
                                         struct facet_error *error)
{
    char *line = NULL;
    size_t length = 0;
    json_error_t why;

    enum facet_status status = facet_wire_receive(&qmp->wire, until_ns, &line, &length, error);
    if (status != FACET_OK)
        return status;
    json_t *message = json_loadb(line, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    /* When memory runs out, jansson reports out_of_memory, or no code at all, which reads as unknown. */
    if (!message && (json_error_code(&why) == json_error_out_of_memory || json_error_code(&why) == json_error_unknown))
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for an answer");
    if (!json_is_object(message)) {
        json_decref(message);
        return refuse_corrupt(error, "a line that is no JSON object");
    }
    *ret_message = message;
    return FACET_OK;
}

/* Whether the message answers an earlier command, for which the caller no longer waits. */
static bool is_late(const struct facet_qmp *qmp, const json_t *message)
{
    const json_t *serial = json_object_get(message, "id");

    return json_is_integer(serial) && json_integer_value(serial) < qmp->serial;
}

/* Receives the next message that is no event; events before it are noted in the watches. */
static enum facet_status receive_answer(struct facet_qmp *qmp, json_t **ret_message, struct facet_error *error)
{
    for (;;) {
        json_t *message = NULL;
        enum facet_status status = receive_message(qmp, UINT64_MAX, &message, error);
        if (status != FACET_OK)
            return status;
        const json_t *event = json_object_get(message, "event");
        if (!event && !is_late(qmp, message)) {
            *ret_message = message;
            return FACET_OK;
        }
        if (json_is_string(event))
            note_event(qmp, message, json_string_value(event));
        json_decref(message);
    }
}

enum facet_status facet_qmp_listen(struct facet_qmp *qmp, uint64_t until_ns, struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *message = NULL;
    enum facet_status status = receive_message(qmp, until_ns, &message, error);

    if (status != FACET_OK)
        return status;
    const char *event = json_string_value(json_object_get(message, "event"));
    if (!event)
        return refuse_corrupt(error, "an answer to no request");
    note_event(qmp, message, event);
    return FACET_OK;
}

/* --- commands --- */

static enum facet_status refuse_fault(const json_t *fault, struct facet_error *error)
{
    const char *class = json_string_value(json_object_get(fault, "class"));
    const char *words = json_string_value(json_object_get(fault, "desc"));
    bool absent = class && strcmp(class, "DeviceNotFound") == 0;

    return facet_error_set(error, absent ? FACET_NOT_FOUND : FACET_BAD_STATE, "QEMU refuses: %s",
                           words ? words : "without a reason");
}

static enum facet_status read_answer(const struct facet_qmp *qmp, const json_t *answer, json_t **ret_value,
                                     struct facet_error *error)
{
    const json_t *fault = json_object_get(answer, "error"), *serial = json_object_get(answer, "id");
    json_t *value = json_object_get(answer, "return");

    /* QEMU's error about a command that it cannot parse has no id. */
    if (fault && !serial)
        return refuse_fault(fault, error);
    if (!json_is_integer(serial) || json_integer_value(serial) != qmp->serial || (!fault && !value))
        return refuse_corrupt(error, "an answer to no request");
    if (fault)
        return refuse_fault(fault, error);
    if (ret_value)
        *ret_value = json_incref(value);
    return FACET_OK;
}

static enum facet_status send_command(struct facet_qmp *qmp, const char *command, json_t *arguments, int fd,
                                      struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *message = json_pack("{s:s, s:I}", "execute", command, "id", ++qmp->serial);

    /* json_object_set_new() takes the reference to the arguments even when it fails. It fails when they are NULL. */
    if (json_object_set_new(message, "arguments", arguments) < 0)
        json_decref(FACET_TAKE_PTR(message));
    FACET_CLEANUP_FREE char *line = facet_draft_json(message, "\n");
    if (!line)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a command");
    return facet_wire_send(&qmp->wire, line, strlen(line), fd, error);
}

enum facet_status facet_qmp_call(struct facet_qmp *qmp, const char *command, json_t *arguments, int fd,
                                 json_t **ret_value, struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *answer = NULL;
    enum facet_status status = send_command(qmp, command, arguments, fd, error);

    if (status == FACET_OK)
        status = receive_answer(qmp, &answer, error);
    if (status == FACET_OK)
        status = read_answer(qmp, answer, ret_value, error);
    return status == FACET_OK ? FACET_OK : facet_error_prefix(error, "%s", command);
}

enum facet_status facet_qmp_state(struct facet_qmp *qmp, char ret_state[FACET_ATTACH_ID_SIZE],
                                  struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *value = NULL;
    enum facet_status status = facet_qmp_call(qmp, "query-status", json_object(), 0, &value, error);

    if (status != FACET_OK)
        return status;
    const char *state = json_string_value(json_object_get(value, "status"));
    if (!state)
        return refuse_corrupt(error, "query-status without a status");
    snprintf(ret_state, FACET_ATTACH_ID_SIZE, "%s", state);
    return FACET_OK;
}

/* --- opening --- */

enum facet_status facet_qmp_greet(struct facet_qmp *qmp, struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *message = NULL;
    json_int_t major = 0, minor = 0;
    enum facet_status status = receive_message(qmp, UINT64_MAX, &message, error);

    if (status == FACET_TIMEOUT)
        return facet_error_set(error, status, "no greeting; QEMU talks to one client at a time: is another connected?");
    if (status != FACET_OK)
        return status;
    if (json_unpack(message, "{s:{s:{s:{s:I, s:I}}}}", "QMP", "version", "qemu", "major", &major, "minor", &minor) <
            0 ||
        major < 0 || major > 0xffff || minor < 0 || minor > 0xffff)
        return refuse_corrupt(error, "no greeting of QMP");
    qmp->version = FACET_ATTACH_VERSION(major, minor);
    return facet_qmp_call(qmp, "qmp_capabilities", json_object(), 0, NULL, error);
}

static enum facet_status check_config(const struct facet_qmp_config *config, struct facet_error *error)
{
    if (!config || config->size != sizeof *config)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config", "config: expected one of size %zu",
                                    sizeof *config);
    FACET_NEED_RESERVED("config", config, error);
    if (!config->socket)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "socket", "socket: expected the path of one");
    if (config->driver && strlen(config->driver) >= FACET_ATTACH_ID_SIZE)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "driver", "driver '%.70s': expected at most %u bytes",
                                    config->driver, FACET_ATTACH_ID_SIZE - 1);
    return FACET_OK;
}

static void find_process(struct facet_qmp *qmp)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;

    if (getsockopt(qmp->wire.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
        qmp->process = peer.pid;
}

static enum facet_status begin_session(struct facet_qmp *qmp, const struct facet_qmp_config *config,
                                       struct facet_error *error)
{
    uint64_t timeout = config->timeout_ns ? config->timeout_ns : TIMEOUT_NS, now = facet_clock_now_ns();
    uint64_t deadline = now + timeout < now ? UINT64_MAX : now + timeout;

    qmp->wire.fd = -1;
    qmp->used_ns = config->used_ns ? config->used_ns : USED_NS;
    snprintf(qmp->driver, sizeof qmp->driver, "%s", config->driver ? config->driver : "vfio-pci");
    qmp->socket = strdup(config->socket);
    if (!qmp->socket)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a connection");
    enum facet_status status = facet_wire_connect(&qmp->wire, config->socket, deadline, error);
    if (status != FACET_OK)
        return status;
    find_process(qmp);
    return facet_qmp_greet(qmp, error);
}

enum facet_status facet_qmp_open(const struct facet_qmp_config *config, struct facet_qmp **ret_qmp,
                                 struct facet_error *error)
{
    enum facet_status status = check_config(config, error);

    if (status != FACET_OK)
        return status;
    struct facet_qmp *qmp = calloc(1, sizeof *qmp);
    if (!qmp)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a connection");
    status = begin_session(qmp, config, error);
    if (status == FACET_OK) {
        *ret_qmp = qmp;
        return FACET_OK;
    }
    facet_qmp_close(qmp);
    return facet_error_prefix(error, "QEMU on '%.120s'", config->socket);
}

void facet_qmp_close(struct facet_qmp *qmp)
{
    if (!qmp)
        return;
    facet_wire_close(&qmp->wire);
    free(qmp->socket);
    free(qmp);
}

uint32_t facet_qmp_version(const struct facet_qmp *qmp)
{
    return qmp->version;
}

int64_t facet_qmp_process(const struct facet_qmp *qmp)
{
    return qmp->process;
}

uint64_t facet_qmp_deadline(const struct facet_qmp *qmp)
{
    return qmp->wire.deadline_ns;
}
