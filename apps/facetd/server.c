/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the socket and the HTTP library. Never: lets the library read a head that the front has not checked. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "front.h"
#include "monitor/prometheus.h"
#include "refusal.h"
#include "route.h"
#include "waiting.h"

enum {
    BACKLOG = 512,
    CONNECTIONS_MAX = 256,
    IDLE_TIMEOUT_S = 30,
    CONNECTION_MEMORY = 64 * 1024,   /* the largest head (head.h), the library's copy of it, and its answer's head */
    FULL_PAUSE_NS = 5 * 1000 * 1000, /* how often a new connection looks for room among CONNECTIONS_MAX */
};

/* When the daemon starts again: for calls that are being answered, and for callers that have not sent all of their
 * head. A command waits 5 s for an answer. */
#define FINISH_MOST_NS (2 * FACET_NS_PER_S)
#define HEADS_MOST_NS  (200 * FACET_NS_PER_MS)

struct server {
    const struct daemon *daemon;
    struct MHD_Daemon *http;
    struct front *front;
    int listener;    /* the front's */
    bool keeps_file; /* the socket's file is the service manager's */
    dev_t device;    /* of the socket's file */
    ino_t inode;
    char path[sizeof((struct sockaddr_un *)NULL)->sun_path];
    char hidden[FACET_PATH_SIZE];
    _Atomic unsigned connections;
    /*
     * Connections that were handed to the library, and whose threads have not begun yet. A connection for which the
     * library had no memory stays counted.
     */
    _Atomic unsigned unstarted;
    _Atomic uint64_t last_handed_ns; /* when the last connection was handed to the library */
    _Atomic uint64_t last_ended_ns;  /* when the last connection ended */
    _Atomic bool stopping;
    _Atomic uint64_t calls;
    struct waiting waiting; /* of the library's connections */
};

/* One request while its body arrives. */
struct exchange {
    struct route_match route;
    char *body;
    size_t size;
};

/* --- answers -------------------------------------------------------------------------------------------------- */

/* Sends `text`, and frees it. `allow` may be NULL. */
static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned http, const char *type, char *text,
                                 const char *allow)
{
    struct MHD_Response *response =
        text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE) : NULL;

    if (!response) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (allow)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow);
    /* Only the first request of a connection was checked before the library read it (front.h). */
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = MHD_queue_response(connection, http, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_json(struct MHD_Connection *connection, unsigned http, json_t *json, const char *allow)
{
    char *text = json_dumps(json, JSON_COMPACT);

    json_decref(json);
    return send_text(connection, http, "application/json", text, allow);
}

static enum MHD_Result send_error(struct MHD_Connection *connection, unsigned http, const struct facet_error *error,
                                  const char *allow)
{
    return send_text(connection, http, "application/json", refusal_text(error), allow);
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, const struct answer *answer)
{
    if (answer->text)
        return send_text(connection, answer->http, FACET_PROMETHEUS_CONTENT_TYPE, answer->text, NULL);
    return send_json(connection, answer->http, answer->json, NULL);
}

/* --- requests ------------------------------------------------------------------------------------------------- */

/* Sends the refusal of a call without an endpoint. */
static enum MHD_Result refuse_route(struct MHD_Connection *connection, const struct route_match *route,
                                    const char *method, const char *path)
{
    struct facet_error error;

    if (!route->allow) {
        facet_error_argument(&error, FACET_NOT_FOUND, "path", "there is nothing at '%.128s'", path);
        return send_error(connection, MHD_HTTP_NOT_FOUND, &error, NULL);
    }
    facet_error_argument(&error, FACET_INVALID_ARGUMENT, "method", "'%.16s' is not possible here: expected %s", method,
                         route->allow);
    return send_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED, &error, route->allow);
}

/* The arguments behind '?'. Each call allows one argument at most. */
struct arguments {
    const char *allowed; /* NULL: none */
    bool given;
    bool force;
    uint64_t after;
    const char *render;
    struct facet_error error;
    enum facet_status status;
};

static const char *allowed_argument(const struct route_match *route)
{
    if (route->endpoint == endpoint_vgpu_destroy)
        return "force";
    if (route->endpoint == endpoint_reservation_show || route->endpoint == endpoint_reservation_create)
        return "render";
    return route->endpoint == endpoint_events ? "after" : NULL;
}

static enum facet_status read_force(const char *text, struct arguments *arguments)
{
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return facet_error_argument(&arguments->error, FACET_INVALID_ARGUMENT, "force",
                                    "force '%.16s': expected 0 or 1", text);
    arguments->force = text[0] == '1';
    return FACET_OK;
}

static enum facet_status read_after(const char *text, struct arguments *arguments)
{
    if (!text[0] || strlen(text) > 19 || strspn(text, "0123456789") != strlen(text))
        return facet_error_argument(&arguments->error, FACET_INVALID_ARGUMENT, "after",
                                    "after '%.24s': expected the number of an event", text);
    arguments->after = strtoull(text, NULL, 10);
    return FACET_OK;
}

static enum MHD_Result read_argument(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct arguments *arguments = context;

    if (!arguments->allowed || strcmp(arguments->allowed, name) != 0)
        arguments->status = facet_error_argument(&arguments->error, FACET_INVALID_ARGUMENT, name,
                                                 "unknown argument '%.64s' after '?'", name);
    else if (arguments->given)
        arguments->status = facet_error_argument(&arguments->error, FACET_INVALID_ARGUMENT, name,
                                                 "%s is there twice after '?': expected one", name);
    else if (strcmp(name, "force") == 0)
        arguments->status = read_force(value ? value : "", arguments);
    else if (strcmp(name, "render") == 0)
        arguments->render = value ? value : "";
    else
        arguments->status = read_after(value ? value : "", arguments);
    arguments->given = true;
    return arguments->status == FACET_OK ? MHD_YES : MHD_NO;
}

static int descriptor_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* The user of the calling process, which the front has let in; UINT32_MAX, which is no user's, if it cannot be read. */
static uint32_t uid_of(struct MHD_Connection *connection)
{
    struct ucred peer = {.uid = UINT32_MAX};
    socklen_t size = sizeof peer;

    getsockopt(descriptor_of(connection), SOL_SOCKET, SO_PEERCRED, &peer, &size);
    return peer.uid;
}

/* Runs the endpoint, when all of the request has arrived. */
static enum MHD_Result answer_call(const struct server *server, struct MHD_Connection *connection,
                                   const struct exchange *exchange)
{
    struct arguments arguments = {.allowed = allowed_argument(&exchange->route)};
    struct facet_error error;
    struct answer answer = {0};

    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, read_argument, &arguments);
    if (arguments.status != FACET_OK)
        return send_error(connection, refusal_http(arguments.status), &arguments.error, NULL);

    const struct call call = {
        .uid = uid_of(connection),
        .ref = exchange->route.ref,
        .force = arguments.force,
        .after = arguments.after,
        .render = arguments.render,
        .body = exchange->body ? exchange->body : "",
        .body_size = exchange->size,
    };
    enum facet_status status = exchange->route.endpoint(server->daemon, &call, &answer, &error);
    return status == FACET_OK ? send_answer(connection, &answer)
                              : send_error(connection, refusal_http(status), &error, NULL);
}

/*
 * Called when the headers are complete. Refusals wait for the end of the request, because many callers read nothing
 * before they have sent everything.
 */
static enum MHD_Result begin_exchange(const char *method, const char *path, void **ret_exchange)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return MHD_NO;
    route_find(method, path, &exchange->route);
    *ret_exchange = exchange;
    return MHD_YES;
}

/* Collects a piece of the body, whose declared length was checked. */
static enum MHD_Result collect_body(struct exchange *exchange, const char *data, size_t *size)
{
    if (exchange->size + *size > REQUEST_BODY_MAX)
        return MHD_NO;
    if (!exchange->body)
        exchange->body = malloc(REQUEST_BODY_MAX);
    if (!exchange->body)
        return MHD_NO;
    memcpy(exchange->body + exchange->size, data, *size);
    exchange->size += *size;
    *size = 0;
    return MHD_YES;
}

/* Answers a complete request. From then on the connection waits for its caller to read. */
static enum MHD_Result answer_request(struct server *server, struct MHD_Connection *connection,
                                      const struct exchange *exchange, const char *method, const char *path)
{
    enum MHD_Result result;

    if (!waiting_end(&server->waiting, descriptor_of(connection)))
        return MHD_NO;
    atomic_fetch_add(&server->calls, 1);
    result = exchange->route.endpoint ? answer_call(server, connection, exchange)
                                      : refuse_route(connection, &exchange->route, method, path);
    waiting_begin(&server->waiting, descriptor_of(connection), facet_clock_now_ns());
    return result;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data, size_t *data_size,
                                  void **state)
{
    struct server *server = context;
    struct exchange *exchange = *state;

    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    if (!exchange)
        return begin_exchange(method, path, state);
    if (*data_size)
        return collect_body(exchange, data, data_size);
    return answer_request(server, connection, exchange, method, path);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct exchange *exchange = *state;

    if (exchange)
        free(exchange->body);
    free(exchange);
    *state = NULL;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    struct server *server = context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        waiting_begin(&server->waiting, descriptor_of(connection), facet_clock_now_ns());
        atomic_fetch_add(&server->connections, 1);
        atomic_fetch_sub(&server->unstarted, 1);
    } else {
        (void)waiting_end(&server->waiting, descriptor_of(connection));
        atomic_store(&server->last_ended_ns, facet_clock_now_ns());
        atomic_fetch_sub(&server->connections, 1);
    }
}

static void FACET_PRINTF(2, 0) on_log(void *context, const char *format, va_list arguments)
{
    char line[256];

    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\n")] = '\0';
    facet_log(FACET_LOG_DEBUG, "http: %s", line);
}

/* --- the socket ----------------------------------------------------------------------------------------------- */

static enum facet_status fill_address(const char *path, struct sockaddr_un *address, struct facet_error *error)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "socket",
                                    "socket '%.200s' of %zu bytes: expected at most %zu; choose another folder with "
                                    "FACET_RUNTIME_DIR",
                                    path, strlen(path), sizeof address->sun_path - 1);
    memcpy(address->sun_path, path, strlen(path) + 1);
    return FACET_OK;
}

bool server_answers(const char *path)
{
    FACET_CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address;

    if (fd < 0 || fill_address(path, &address, NULL) != FACET_OK)
        return false;
    /* EAGAIN is a full backlog, so a process listens. */
    return connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 || errno == EAGAIN;
}

/* Removes the socket that a killed daemon left. Refuses any other file. */
static enum facet_status remove_stale(const struct sockaddr_un *address, struct facet_error *error)
{
    struct stat file;

    if (lstat(address->sun_path, &file) < 0)
        return errno == ENOENT ? FACET_OK : facet_error_errno(error, errno, "socket '%s'", address->sun_path);
    if (!S_ISSOCK(file.st_mode))
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "socket", "'%s' is there and is no socket",
                                    address->sun_path);
    if (server_answers(address->sun_path))
        return facet_error_argument(error, FACET_BUSY, "socket", "another program answers on '%s'", address->sun_path);
    if (unlink(address->sun_path) < 0)
        return facet_error_errno(error, errno, "removing the stale socket '%s'", address->sun_path);
    facet_log(FACET_LOG_INFO, "replaced the stale socket '%s'", address->sun_path);
    return FACET_OK;
}

static enum facet_status open_socket(const char *path, int *ret_fd, struct facet_error *error)
{
    struct sockaddr_un address;

    enum facet_status status = fill_address(path, &address, error);
    if (status == FACET_OK)
        status = remove_stale(&address, error);
    if (status != FACET_OK)
        return status;

    FACET_CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0)
        return facet_error_errno(error, errno, "making socket '%s'", path);
    if (chmod(address.sun_path, 0600) < 0 || listen(fd, BACKLOG) < 0) {
        status = facet_error_errno(error, errno, "listening on socket '%s'", path);
        unlink(address.sun_path);
        return status;
    }
    *ret_fd = FACET_TAKE_FD(fd);
    return FACET_OK;
}

/* Starts the library without a socket of its own: the front gives it connections. */
static struct MHD_Daemon *start_http(struct server *server)
{
    const unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
                           MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;

    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_NOTIFY_COMPLETED,
                            on_completed, NULL, MHD_OPTION_CONNECTION_LIMIT, 2U * CONNECTIONS_MAX,
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)CONNECTION_MEMORY, MHD_OPTION_END);
}

/*
 * Hands a connection whose head is complete to the library. At the bound it waits until a connection ends, or hangs up
 * on an idle one; later callers wait in the backlog. All connections that the front holds may pass at once, so the
 * library's own limit, at which it would hang up, is higher by as many.
 */
static void on_head(void *context, int fd)
{
    struct server *server = context;
    const struct sockaddr_un no_address = {.sun_family = AF_UNIX};
    const struct timespec pause = {.tv_nsec = FULL_PAUSE_NS};

    while (atomic_load(&server->connections) >= CONNECTIONS_MAX && !atomic_load(&server->stopping)) {
        (void)waiting_hang_up(&server->waiting, facet_clock_now_ns());
        nanosleep(&pause, NULL);
    }
    atomic_store(&server->last_handed_ns, facet_clock_now_ns());
    atomic_fetch_add(&server->unstarted, 1);
    /* The library closes `fd` when it fails. */
    if (MHD_add_connection(server->http, fd, (const struct sockaddr *)&no_address, sizeof no_address.sun_family) !=
        MHD_YES)
        atomic_fetch_sub(&server->unstarted, 1);
}

static bool is_our_file(const struct server *server, const char *path)
{
    struct stat file;

    return lstat(path, &file) == 0 && file.st_dev == server->device && file.st_ino == server->inode;
}

/* Serves on `fd`, which was just bound to the server's path. On failure closes it, and changes nothing. */
static bool serve_on_socket(struct server *server, int fd)
{
    struct front *front;
    struct stat file;

    if (lstat(server->path, &file) < 0) {
        close(fd);
        return false;
    }
    if (front_start(fd, CONNECTIONS_MAX, on_head, server, &front, NULL) != FACET_OK)
        return false;
    server->front = front;
    server->listener = fd;
    server->device = file.st_dev;
    server->inode = file.st_ino;
    return true;
}

enum facet_status server_start(const struct server_socket *socket, const struct daemon *daemon,
                               struct server **ret_server, struct facet_error *error)
{
    int fd = socket->fd;
    struct stat file;

    /* The daemon's own socket, whose file was removed while it started again. */
    if (fd >= 0 && !socket->is_passed && lstat(socket->path, &file) < 0) {
        close(fd);
        fd = -1;
    }
    enum facet_status status = fd < 0 ? open_socket(socket->path, &fd, error) : FACET_OK;
    if (status != FACET_OK)
        return status;
    struct server *server = calloc(1, sizeof *server);
    if (server) {
        server->daemon = daemon;
        server->keeps_file = socket->is_passed;
        snprintf(server->path, sizeof server->path, "%s", socket->path);
        snprintf(server->hidden, sizeof server->hidden, "%s.leaving", socket->path);
        waiting_init(&server->waiting);
        server->http = start_http(server);
    }
    if (!server || !server->http || !serve_on_socket(server, FACET_TAKE_FD(fd))) {
        if (server && server->http)
            MHD_stop_daemon(server->http);
        if (server)
            waiting_clear(&server->waiting);
        free(server);
        if (fd >= 0)
            close(fd);
        if (!socket->is_passed)
            unlink(socket->path);
        return facet_error_set(error, FACET_INTERNAL, "cannot start serving on '%s'", socket->path);
    }
    *ret_server = server;
    return FACET_OK;
}

static void stop_serving(struct server *server)
{
    atomic_store(&server->stopping, true);
    front_stop(server->front);
    MHD_stop_daemon(server->http);
    waiting_clear(&server->waiting);
    free(server);
}

void server_stop(struct server *server)
{
    if (!server)
        return;
    /* Removes the file first, so that a new caller starts another daemon, which waits for this one's lock. */
    if (!server->keeps_file && is_our_file(server, server->path))
        unlink(server->path);
    unlink(server->hidden);
    stop_serving(server);
}

bool server_is_reachable(const struct server *server)
{
    return is_our_file(server, server->path);
}

enum facet_status server_rebind(struct server *server, struct facet_error *error)
{
    struct front *old_front = server->front;
    int fd = -1;

    enum facet_status status = open_socket(server->path, &fd, error);
    if (status != FACET_OK)
        return status;
    if (!serve_on_socket(server, fd)) {
        unlink(server->path);
        return facet_error_set(error, FACET_INTERNAL, "cannot serve on '%s' again", server->path);
    }
    server->keeps_file = false;
    front_stop(old_front);
    return FACET_OK;
}

bool server_hide(struct server *server)
{
    return rename(server->path, server->hidden) == 0;
}

bool server_show(struct server *server)
{
    return rename(server->hidden, server->path) == 0;
}

/* The connections that the library has. */
static unsigned handed_connections(const struct server *server)
{
    unsigned unstarted = atomic_load(&server->unstarted);

    if (unstarted && facet_clock_now_ns() - atomic_load(&server->last_handed_ns) > IDLE_TIMEOUT_S * FACET_NS_PER_S)
        unstarted = 0; /* the library had no memory for them */
    return unstarted + atomic_load(&server->connections);
}

unsigned server_connections(struct server *server)
{
    /* Read in the order in which connections move on, so that each is counted at least once. */
    unsigned in_front = front_connections(server->front);

    return in_front + handed_connections(server);
}

/* Lets the callers that were accepted get their answers; the socket's backlog keeps later ones. */
static void finish_callers(struct server *server)
{
    uint64_t begun_ns = facet_clock_now_ns(), now_ns = begun_ns;
    const struct timespec pause = {.tv_nsec = FULL_PAUSE_NS};

    front_stop_accepting(server->front);
    for (; now_ns < begun_ns + FINISH_MOST_NS; now_ns = facet_clock_now_ns()) {
        unsigned in_front = front_accepted(server->front); /* read first, like in server_connections() */

        if (handed_connections(server) == 0 && (in_front == 0 || now_ns > begun_ns + HEADS_MOST_NS))
            return;
        nanosleep(&pause, NULL);
    }
}

int server_stop_serving(struct server *server, bool *ret_is_passed)
{
    int listener = fcntl(server->listener, F_DUPFD_CLOEXEC, 0);

    *ret_is_passed = server->keeps_file;
    if (listener < 0) {
        server_stop(server);
        return -1;
    }
    finish_callers(server);
    stop_serving(server);
    return listener;
}

uint64_t server_calls(const struct server *server)
{
    return atomic_load(&server->calls);
}

uint64_t server_called_ns(const struct server *server)
{
    return atomic_load(&server->last_ended_ns);
}
