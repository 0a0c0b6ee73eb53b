/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: calls over one HTTP handle per client, starting a private daemon, refusals with the daemon's advice.
 * Never: retries a call that the daemon may have seen.
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config.h"
#include "client_environment.h"
#include "http.h"
#include "start.h"

enum {
    ANSWER_MAX = 16 << 20, /* more than any answer of a daemon */
    CALL_MS = 5000,        /* the daemon answers from memory */
    PROVIDER_MS =
        40000, /* the daemon waits for a provider, 10 s to open and 5 s to answer, and then reports the failure */
    POLL_NS = 20 * 1000 * 1000,
};

#define START_MOST_NS (5 * FACET_NS_PER_S) /* the time in which a daemon that has started answers */

/* Refuses a path that is too long for a socket here, because the error of a later connect() names no variable. */
static enum facet_status find_socket(char *ret_path, size_t size, struct facet_error *error)
{
    const size_t longest = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;
    const char *variable = facet_config_setting(FACET_SETTING_RUNTIME_DIR)->variable;
    enum facet_status status = facet_path_socket(ret_path, size, error);

    if (status == FACET_OUT_OF_RANGE)
        facet_error_prefix(error, "%s", variable);
    if (status != FACET_OK || strlen(ret_path) <= longest)
        return status;
    size_t file = strlen(strrchr(ret_path, '/'));
    return facet_error_argument(error, FACET_OUT_OF_RANGE, variable,
                                "%s: the runtime folder '%.60s...' has %zu bytes, expected at most %zu", variable,
                                ret_path, strlen(ret_path) - file, longest - file);
}

enum facet_status client_open(struct client *ret_client, bool may_start, struct facet_error *error)
{
    struct client client = {.may_start = may_start};
    enum facet_status status = facet_config_check(error);

    if (status == FACET_OK)
        status = find_socket(client.socket_path, sizeof client.socket_path, error);
    if (status != FACET_OK)
        return status;
    size_t length = (size_t)(strrchr(client.socket_path, '/') - client.socket_path);
    memcpy(client.folder, client.socket_path, length);
    status = http_open(&client.http, error);
    if (status == FACET_OK)
        *ret_client = client;
    return status;
}

void client_close(struct client *client)
{
    http_close(client->http);
    client->http = NULL;
}

/* A change, one device's details, and a workload's configuration may need a provider. */
static bool may_ask_provider(const char *method, const char *url)
{
    return strcmp(method, "GET") != 0 || strstr(url, "/v1/devices/") || strstr(url, "/v1/reservations/");
}

/* The process that listens on the socket, even if it is stopped; 0 when it is unknown. */
static pid_t listener_pid(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    FACET_CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    /* The path fits: see find_socket(). */
    memcpy(address.sun_path, path, strnlen(path, sizeof address.sun_path - 1));
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return 0;
    return peer.pid;
}

static enum facet_status timeout_error(const struct client *client, struct facet_error *error)
{
    pid_t pid = listener_pid(client->socket_path);

    if (pid <= 0)
        return facet_error_set(error, FACET_TIMEOUT, "the daemon on %s does not answer", client->socket_path);
    return facet_error_set(error, FACET_TIMEOUT, "the daemon (pid %d) does not answer", (int)pid);
}

static enum facet_status transport_error(const struct client *client, const struct http_failure *failure,
                                         struct facet_error *error)
{
    if (client->unreachable)
        return facet_error_set(error, FACET_IO, "no daemon listens on %s; 'facetd' starts one", client->socket_path);
    switch (failure->kind) {
    case HTTP_TIMED_OUT:
        return timeout_error(client, error);
    case HTTP_TOO_LONG:
        return facet_error_set(error, FACET_IO, "the daemon's answer is above %d MiB", ANSWER_MAX >> 20);
    case HTTP_NO_MEMORY:
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a call of the daemon");
    case HTTP_NOT_CONNECTED:
        if (failure->os_errno)
            return facet_error_errno(error, failure->os_errno, "cannot connect to %s", client->socket_path);
        return facet_error_set(error, FACET_IO, "cannot connect to %s: %s", client->socket_path, failure->reason);
    case HTTP_OTHER_USER:
        return facet_error_set(error, FACET_PERMISSION,
                               "a process of user %lu listens on %s; expected one of user %lu or root",
                               (unsigned long)failure->user, client->socket_path, (unsigned long)geteuid());
    case HTTP_BROKEN:
        break;
    }
    return facet_error_set(error, FACET_IO, "the daemon on %s went away: %s", client->socket_path, failure->reason);
}

/*
 * A user who can change the folder could put another socket there. The folder is checked anew before each call: one
 * that is missing now may belong to another user by the next call.
 */
static enum facet_status check_folder(struct client *client, struct facet_error *error)
{
    struct facet_error reason;
    enum facet_status status = facet_path_trust_folder(client->folder, &reason);

    client->unreachable = status == FACET_NOT_FOUND;
    if (client->unreachable)
        return transport_error(client, NULL, error);
    if (status == FACET_OK)
        return FACET_OK;
    return facet_error_set(error, status, "the daemon's folder cannot be trusted: %s; %s chooses another",
                           reason.message, facet_config_setting(FACET_SETTING_RUNTIME_DIR)->variable);
}

/* Makes one exchange; an answer of any HTTP status is a success. */
static enum facet_status exchange_once(struct client *client, const char *method, const char *url, const char *body,
                                       struct http_answer *ret_answer, struct facet_error *error)
{
    bool with_provider = may_ask_provider(method, url);
    struct http_failure failure;
    const struct http_call call = {.socket = client->socket_path,
                                   .method = method,
                                   .url = url,
                                   .body = body,
                                   .note = with_provider ? "waiting for the daemon and the device's provider ..."
                                                         : "waiting for the daemon ...",
                                   .answer_most = ANSWER_MAX,
                                   .own_user_only = true,
                                   .timeout_ms = with_provider ? PROVIDER_MS : CALL_MS};

    enum facet_status status = check_folder(client, error);
    if (status != FACET_OK)
        return status;
    if (http_exchange(client->http, &call, ret_answer, &failure))
        return FACET_OK;
    client->unreachable =
        failure.kind == HTTP_NOT_CONNECTED && (failure.os_errno == ENOENT || failure.os_errno == ECONNREFUSED);
    return transport_error(client, &failure, error);
}

/* Whether systemd starts the machine's daemon, whose folder is `folder`: a private daemon would take its place. */
static bool is_services_folder(const char *folder)
{
    static const char *const enabled[] = {"/etc/systemd/system/sockets.target.wants/facetd.socket",
                                          "/etc/systemd/system/multi-user.target.wants/facetd.service"};
    struct stat link;

    for (size_t i = 0; i < sizeof enabled / sizeof *enabled; i++)
        if (strcmp(folder, FACET_PATH_MACHINE_RUNTIME) == 0 && lstat(enabled[i], &link) == 0)
            return true;
    return false;
}

/*
 * Makes one exchange. When no daemon listens, none has seen the request: this starts one and makes the request again.
 * Of two daemons that start at once, one exits without a message while the other may not listen yet; hence the loop.
 */
static enum facet_status exchange_or_start(struct client *client, const char *method, const char *url, const char *body,
                                           struct http_answer *ret_answer, struct facet_error *error)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    enum facet_status status = exchange_once(client, method, url, body, ret_answer, error);

    if (!client->unreachable || !client->may_start)
        return status;
    if (is_services_folder(client->folder))
        return facet_error_set(error, FACET_IO,
                               "no daemon listens on %s, and its service is enabled; 'systemctl start facetd.socket' "
                               "starts it",
                               client->socket_path);
    status = daemon_start(error);
    if (status != FACET_OK)
        return status;
    for (uint64_t deadline = facet_clock_now_ns() + START_MOST_NS;;) {
        status = exchange_once(client, method, url, body, ret_answer, error);
        if (!client->unreachable)
            return status;
        if (facet_clock_now_ns() >= deadline)
            return daemon_start_failed(client->socket_path, error);
        nanosleep(&pause, NULL);
    }
}

/* The command's option for a member of a request's JSON; the member's own name when no option sets it. */
static const char *option_of_member(const char *member)
{
    static const struct {
        const char *member, *word;
    } words[] = {
        {"memory_limit_bytes", "memory"},
        {"compute_request_milli", "compute"},
        {"compute_limit_milli", "compute"},
        {"slots", "slot"},
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].member, member) == 0)
            return words[i].word;
    return member;
}

/* The daemon's answer to GET /v1/health; NULL when there is none. */
static json_t *ask_health(struct client *client)
{
    struct http_answer answer = {0};

    if (exchange_once(client, "GET", "http://facetd/v1/health", NULL, &answer, NULL) != FACET_OK)
        return NULL;
    json_t *health = answer.text ? json_loads(answer.text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    free(answer.text);
    return health;
}

/* Whether the daemon chooses a device for the call. */
static bool chooses_device(const char *method, const char *path)
{
    static const char reservations[] = "/v1/reservations";
    size_t length = sizeof reservations - 1;

    return strcmp(method, "POST") == 0 &&
           (strcmp(path, "/v1/vgpus") == 0 ||
            (strncmp(path, reservations, length) == 0 && (!path[length] || path[length] == '?')));
}

/* Notes how the environment of a private daemon, by which it finds devices, differs from this process's. */
static void note_environment(struct client *client)
{
    CLIENT_CLEANUP_JSON json_t *health = ask_health(client);

    if (json_is_true(json_object_get(health, "private")))
        (void)client_environment_differs(health, client->environment_note, sizeof client->environment_note);
}

/*
 * The daemon finds devices by its own variables, not by the caller's. The refusal says so where they differ.
 * `missing`: no such device was found, perhaps because a variable is left out of the daemon's environment.
 */
static enum facet_status refuse_device(struct client *client, enum facet_status status, bool missing,
                                       const char *argument, const char *message, struct facet_error *error)
{
    CLIENT_CLEANUP_JSON json_t *health = ask_health(client);
    char advice[sizeof client->advice] = "";

    if (missing)
        client_environment_advise(health, advice, sizeof advice);
    else
        (void)client_environment_differs(health, advice, sizeof advice);
    if (!advice[0])
        return facet_error_argument(error, status, argument, "%s", message);
    snprintf(client->advice, sizeof client->advice, "%s", advice);
    int message_most = (int)(sizeof error->message - strlen(advice) - sizeof "; ");
    return facet_error_argument(error, status, argument, "%.*s; %s", message_most, message, advice);
}

/* Whether another device might accept the request. */
static bool depends_on_device(enum facet_status status)
{
    return status == FACET_OUT_OF_RANGE || status == FACET_NO_SPACE || status == FACET_UNSUPPORTED ||
           status == FACET_BAD_STATE || status == FACET_DEVICE_LOST || status == FACET_NOT_FOUND;
}

static enum facet_status read_refusal(struct client *client, const struct http_answer *answer, bool chooses,
                                      struct facet_error *error)
{
    const char *code = NULL, *argument = "", *message = NULL, *advice = "";
    CLIENT_CLEANUP_JSON json_t *json = answer->text ? json_loads(answer->text, JSON_REJECT_DUPLICATES, NULL) : NULL;

    if (!json || json_unpack(json, "{s:{s:s, s?s, s:s, s?s}}", "error", "code", &code, "argument", &argument, "message",
                             &message, "advice", &advice) != 0)
        return facet_error_set(error, FACET_IO, "the daemon on %s answered with HTTP status %ld and no reason",
                               client->socket_path, answer->status);
    snprintf(client->advice, sizeof client->advice, "%s", advice);
    enum facet_status status = facet_status_from_name(code);
    bool missing = strcmp(argument, "device") == 0 || (strcmp(argument, "slots") == 0 && status == FACET_NOT_FOUND);
    if (missing || (chooses && depends_on_device(status)))
        return refuse_device(client, status, missing, option_of_member(argument), message, error);
    return facet_error_argument(error, status, option_of_member(argument), "%s", message);
}

static enum facet_status send_request(struct client *client, const char *method, const char *path, const json_t *body,
                                      struct http_answer *ret_answer, struct facet_error *error)
{
    char url[FACET_PATH_SIZE];
    struct http_answer answer = {0};
    FACET_CLEANUP_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    client->advice[0] = client->environment_note[0] = '\0';
    if (body && !text)
        return facet_error_set(error, FACET_NO_MEMORY, "cannot write a request");
    if ((size_t)snprintf(url, sizeof url, "http://facetd%s", path) >= sizeof url)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "vgpu", "'%.40s...': longer than any name", path);
    enum facet_status status = exchange_or_start(client, method, url, text, &answer, error);
    if (status == FACET_OK && (answer.status < 200 || answer.status > 299)) {
        status = read_refusal(client, &answer, chooses_device(method, path), error);
        free(answer.text);
    } else if (status == FACET_OK) {
        *ret_answer = answer;
        if (chooses_device(method, path))
            note_environment(client);
    }
    return status;
}

enum facet_status client_text(struct client *client, const char *path, char **ret_text, struct facet_error *error)
{
    struct http_answer answer = {0};
    enum facet_status status = send_request(client, "GET", path, NULL, &answer, error);

    if (status == FACET_OK && !answer.text)
        return facet_error_set(error, FACET_IO, "the daemon's answer to %s is empty", path);
    if (status == FACET_OK)
        *ret_text = answer.text;
    return status;
}

enum facet_status client_call(struct client *client, const char *method, const char *path, const json_t *body,
                              json_t **ret_answer, struct facet_error *error)
{
    struct http_answer answer = {0};
    json_error_t position;
    enum facet_status status = send_request(client, method, path, body, &answer, error);

    if (status != FACET_OK)
        return status;
    json_t *json = json_loads(answer.text ? answer.text : "", JSON_REJECT_DUPLICATES, &position);
    free(answer.text);
    if (!json)
        return facet_error_set(error, FACET_IO, "the daemon's answer to %s is not JSON: line %d: %s", path,
                               position.line, position.text);
    if (ret_answer)
        *ret_answer = json;
    else
        json_decref(json);
    return FACET_OK;
}

enum facet_status client_call_in(struct client *client, const char *method, const char *folder, const char *ref,
                                 const char *suffix, const json_t *body, json_t **ret_answer, struct facet_error *error)
{
    const char *kind = strstr(folder, "vgpus") ? "vgpu" : "reservation";
    char path[FACET_PATH_SIZE];

    if (strchr(ref, '/')) /* the daemon refuses an encoded '/' in any path */
        return facet_error_argument(error, FACET_NOT_FOUND, kind, "'%.40s': no name and no id holds a '/'", ref);
    char *escaped = http_escape(client->http, ref);
    if (!escaped)
        return facet_error_set(error, FACET_NO_MEMORY, "cannot build a request");
    int length = snprintf(path, sizeof path, "%s%s%s", folder, escaped, suffix);
    free(escaped);
    if (length < 0 || (size_t)length >= sizeof path)
        return facet_error_argument(error, FACET_NOT_FOUND, kind, "'%.40s...': longer than any name", ref);
    return client_call(client, method, path, body, ret_answer, error);
}

enum facet_status client_call_vgpu(struct client *client, const char *method, const char *ref, const char *suffix,
                                   const json_t *body, json_t **ret_answer, struct facet_error *error)
{
    return client_call_in(client, method, "/v1/vgpus/", ref, suffix, body, ret_answer, error);
}
