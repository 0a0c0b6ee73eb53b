/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facetd: the daemon of one machine's (or one user's) vGPUs.
 *
 * Owns: the order in which the daemon's parts start and stop, signals, and the decision to end.
 * Never: answers a call itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/surroundings.h"
#include "base/variables.h"
#include "bus_error.h"
#include "conf.h"
#include "detach.h"
#include "limiter/tenant.h"
#include "lock.h"
#include "measured.h"
#include "options.h"
#include "server.h"
#include "service.h"

#define TICK_NS         (500 * FACET_NS_PER_MS) /* the interval of the main loop */
#define TAKE_OVER_NS    (30 * FACET_NS_PER_S)   /* in which another daemon must answer or end */
#define RETRY_NS        (20 * FACET_NS_PER_MS)
#define LAST_ANSWERS_NS (FACET_NS_PER_S) /* for calls that are being answered when the daemon wants to end */
/* A command that was refused makes a second call, for the reason: the time to wait for it after a call, and since the
 * daemon's start. */
#define FOLLOW_UP_NS       (200 * FACET_NS_PER_MS)
#define FOLLOW_UPS_MOST_NS (2 * FACET_NS_PER_S)

static void sleep_for(uint64_t ns)
{
    struct timespec time = facet_ns_timespec(ns);

    nanosleep(&time, NULL);
}

/* --- the main loop ----------------------------------------------------------------------------------------- */

struct main_loop {
    const struct daemon *daemon;
    struct server *server;
    const char *runtime;
    int lock;
    sigset_t signals;
    uint64_t idle_exit_ns; /* UINT64_MAX: never */
    uint64_t idle_since_ns, calls;
    bool has_no_program_device; /* private, and programs can run on no device */
    bool starts_again;          /* the loop ended because the configuration is to be read again */
    const struct conf *conf;    /* as it was read at the start */
};

/* Whether no program can run and no vGPU has a device. Such a daemon ends: the next one may find new devices. */
static bool can_run_no_program(const struct main_loop *loop)
{
    return loop->has_no_program_device && !registry_has_devices(loop->daemon->registry);
}

/*
 * Calls keep a daemon alive. A daemon on which no program can run waits only a moment for the next call of a caller,
 * and no longer than FOLLOW_UPS_MOST_NS in all.
 */
static bool is_idle(struct main_loop *loop, uint64_t now_ns)
{
    uint64_t calls = server_calls(loop->server);
    bool expects_follow_up = now_ns < server_called_ns(loop->server) + FOLLOW_UP_NS &&
                             now_ns < loop->daemon->started_ns + FOLLOW_UPS_MOST_NS;
    bool no_calls = can_run_no_program(loop) ? !expects_follow_up : calls == loop->calls;

    loop->calls = calls;
    return no_calls && server_connections(loop->server) == 0 && registry_idle(loop->daemon->registry);
}

/*
 * Hides the socket: a new caller then starts another daemon, which waits for the lock. This daemon still serves the
 * callers that it has. When one of them created work, shows the socket again and returns false.
 */
static bool prepare_exit(struct main_loop *loop)
{
    uint64_t until = facet_clock_now_ns() + LAST_ANSWERS_NS;

    if (!server_hide(loop->server))
        return false;
    while (server_connections(loop->server) && facet_clock_now_ns() < until)
        sleep_for(RETRY_NS);
    if (server_connections(loop->server) == 0 && registry_idle(loop->daemon->registry))
        return true;
    if (server_show(loop->server))
        return false;
    facet_log(FACET_LOG_ERROR, "cannot bring the socket back; leaving, the next facetd takes the vGPUs up again");
    return true;
}

static bool must_leave(struct main_loop *loop)
{
    uint64_t now = facet_clock_now_ns();

    if (!is_idle(loop, now)) {
        loop->idle_since_ns = now;
        return false;
    }
    if (!can_run_no_program(loop) && now - loop->idle_since_ns < loop->idle_exit_ns)
        return false;
    loop->idle_since_ns = now;
    return prepare_exit(loop);
}

/*
 * A cleaner of temporary folders may remove the daemon's files. The socket is bound again. Without the lock's file
 * another daemon may have started, and without the folder the segments are gone too: then the daemon ends, and the next
 * one repairs both.
 */
static enum facet_status keep_reachable(struct main_loop *loop, struct facet_error *error)
{
    if (server_is_reachable(loop->server))
        return FACET_OK;
    if (!lock_is_ours(loop->runtime, loop->lock))
        return facet_error_set(error, FACET_IO,
                               "files in '%s' were removed; stopping, the next facetd takes the vGPUs up again",
                               loop->runtime);
    enum facet_status status = server_rebind(loop->server, error);
    if (status == FACET_OK)
        facet_log(FACET_LOG_WARNING, "the socket was removed; it is bound again");
    else
        facet_error_prefix(error, "the socket was removed; stopping");
    return status;
}

/*
 * On SIGHUP the daemon starts again, because most settings are read at the start. A file with an error changes nothing.
 */
static bool may_start_again(const struct options *options, const struct conf *present)
{
    struct facet_error error = {.status = FACET_OK};
    struct conf conf = {.exists = false};

    if (options->config[0])
        (void)conf_read(options->config, options->config_is_named, &conf, &error);
    /* Another folder has another database: the vGPUs of the present one would be gone. */
    if (error.status == FACET_OK &&
        strcmp(conf.values[FACET_SETTING_STATE_DIR], present->values[FACET_SETTING_STATE_DIR]) != 0)
        facet_error_set(&error, FACET_BAD_STATE,
                        "%s: state_dir is another; it changes only when the daemon is restarted", options->config);
    if (error.status == FACET_OK)
        (void)service_may_start_again(&error);
    if (error.status == FACET_OK)
        return true;
    facet_log(FACET_LOG_ERROR, "the settings stay as they were: %s", error.message);
    service_notify_reloading();
    service_notify("READY=1");
    return false;
}

static enum facet_status serve_until_signal(const struct options *options, struct main_loop *loop,
                                            struct facet_error *error)
{
    const struct timespec tick = facet_ns_timespec(TICK_NS);
    enum facet_status status;
    int signal;

    loop->idle_since_ns = facet_clock_now_ns();
    do {
        signal = sigtimedwait(&loop->signals, NULL, &tick);
        registry_tidy(loop->daemon->registry, facet_clock_now_ns());
        audit_look(loop->daemon->audit, loop->daemon, facet_clock_now_ns());
        status = keep_reachable(loop, error);
        loop->starts_again = signal == SIGHUP && may_start_again(options, loop->conf);
        if (signal == SIGHUP && !loop->starts_again)
            signal = -1;
    } while (signal < 0 && status == FACET_OK && !must_leave(loop));
    if (status != FACET_OK)
        return status;
    if (loop->starts_again)
        facet_log(FACET_LOG_INFO, "starting again, with the settings that %s has now; vGPUs and their programs stay",
                  options->config[0] ? options->config : "no file");
    else if (signal > 0)
        facet_log(FACET_LOG_INFO, "stopping on signal %d; vGPUs and their programs stay", signal);
    else
        facet_log(FACET_LOG_INFO, "leaving: there was nothing to do");
    return FACET_OK;
}

/* --- starting ------------------------------------------------------------------------------------------------- */

static enum facet_status read_idle_exit(const struct options *options, uint64_t *ret_ns, struct facet_error *error)
{
    uint64_t seconds = 0;

    enum facet_status status = facet_config_u64(FACET_SETTING_IDLE_EXIT_S, &seconds, error);
    if (status == FACET_OK)
        *ret_ns = options->private ? seconds * FACET_NS_PER_S : UINT64_MAX;
    return status;
}

static void on_restart(void *registry, const struct facet_provider_record *provider)
{
    registry_reconcile(registry, provider);
}

static enum facet_status serve_registry(const struct options *options, struct daemon *daemon, struct main_loop *loop,
                                        struct ready *ready, struct server_socket *ret_kept, struct facet_error *error)
{
    sessions_on_restart(daemon->sessions, on_restart, daemon->registry);
    registry_tidy(daemon->registry, facet_clock_now_ns());
    const struct server_socket socket = {options->socket, options->socket_fd, options->socket_is_passed};
    enum facet_status status = server_start(&socket, daemon, &loop->server, error);
    if (status != FACET_OK)
        return status;
    facet_log(FACET_LOG_INFO, "ready on '%s'", options->socket);
    ready_succeeded(ready);
    service_notify("READY=1");
    status = serve_until_signal(options, loop, error);
    if (status == FACET_OK && loop->starts_again) {
        service_notify_reloading();
        ret_kept->fd = server_stop_serving(loop->server, &ret_kept->is_passed);
        return FACET_OK;
    }
    service_notify("STOPPING=1");
    server_stop(loop->server);
    return status;
}

/* Opens the parts that must exist before the registry is opened. */
static enum facet_status open_parts(const struct options *options, struct daemon *daemon, struct registry_parts *parts,
                                    struct facet_error *error)
{
    daemon->events = events_open();
    if (!daemon->events)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the events");
    enum facet_status status = sessions_open(daemon->devices, daemon->events, &daemon->sessions, error);
    parts->devices = daemon->devices;
    parts->sessions = daemon->sessions;
    if (status == FACET_OK)
        status = measured_open(daemon->devices, daemon->sessions, &daemon->measured, error);
    if (status == FACET_OK)
        status = audit_open(&daemon->audit, error);
    return status == FACET_OK ? scheduler_start(options->runtime, &parts->scheduler, error) : status;
}

/* Whether programs can run on any device; a simulated device does not count. */
static bool takes_programs(const struct facet_device_table *devices)
{
    bool found = false;

    for (uint32_t i = 0; i < facet_device_table_count(devices) && !found; i++) {
        const struct facet_device_record *device = facet_device_table_at(devices, i);
        bool simulated = device->provider && (device->provider->traits & FACET_PROVIDER_SIMULATED);

        found = !simulated && facet_device_takes_programs(device);
    }
    return found;
}

/*
 * Starts all parts in order, serves, and stops the parts, also when a later one cannot start. *ret_kept is the socket
 * if the daemon is to start again, else it stays.
 */
static enum facet_status serve_clients(const struct options *options, const struct conf *conf, const sigset_t *signals,
                                       int lock, struct ready *ready, struct server_socket *ret_kept,
                                       struct facet_error *error)
{
    struct daemon daemon = {.started_ns = facet_clock_now_ns(), .private = options->private};
    struct main_loop loop = {
        .daemon = &daemon, .runtime = options->runtime, .lock = lock, .signals = *signals, .conf = conf};
    struct facet_device_table *devices = NULL;
    struct registry_parts parts = {0};

    enum facet_status status = read_idle_exit(options, &loop.idle_exit_ns, error);
    if (status == FACET_OK)
        status = facet_path_make_chosen(options->state, 0700, FACET_SETTING_STATE_DIR, error);
    if (status == FACET_OK)
        status = facet_device_table_open(NULL, &devices, error);
    daemon.devices = devices;
    loop.has_no_program_device = status == FACET_OK && options->private && !takes_programs(devices);
    bus_error_survive();
    if (status == FACET_OK)
        status = open_parts(options, &daemon, &parts, error);
    if (status == FACET_OK)
        status = registry_open(options->runtime, options->state, &parts, &daemon.registry, error);
    if (status == FACET_OK)
        status = serve_registry(options, &daemon, &loop, ready, ret_kept, error);
    sessions_stop(daemon.sessions); /* while the registry exists, which they notify of restarts */
    scheduler_stop(parts.scheduler);
    registry_close(daemon.registry);
    measured_close(daemon.measured);
    audit_close(daemon.audit);
    sessions_close(daemon.sessions);
    events_close(daemon.events);
    facet_device_table_close(devices);
    return status;
}

/*
 * Takes the lock. If another daemon has it, a private daemon waits until that daemon answers, and is then not needed
 * (*ret_fd stays -1), or until that daemon has ended, and takes its place.
 */
static enum facet_status take_lock(const struct options *options, int *ret_fd, struct facet_error *error)
{
    uint64_t until = facet_clock_now_ns() + TAKE_OVER_NS;

    if (options->lock_fd >= 0) {
        *ret_fd = options->lock_fd;
        return lock_confirm(options->lock_fd, error);
    }
    enum facet_status status = lock_take(options->runtime, ret_fd, error);

    while (status == FACET_BUSY && options->private && facet_clock_now_ns() < until) {
        if (server_answers(options->socket))
            return FACET_OK;
        sleep_for(RETRY_NS);
        status = lock_take(options->runtime, ret_fd, error);
    }
    if (status == FACET_BUSY && options->private)
        facet_error_prefix(error, "no answer on '%s'", options->socket);
    return status;
}

/* Blocks the signals in every thread, so that only serve_until_signal() receives them, whatever settings the starting
 * process had. */
static void block_signals(sigset_t *ret_signals)
{
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(ret_signals);
    sigaddset(ret_signals, SIGTERM);
    sigaddset(ret_signals, SIGINT);
    sigaddset(ret_signals, SIGHUP);
    sigprocmask(SIG_BLOCK, ret_signals, NULL);
}

/* Warns of settings of the starting shell that remain, because a private daemon serves other shells as well. */
static void warn_of_surroundings(const struct options *options)
{
    char kept_settings[256];

    if (options->private && facet_surroundings_list_remaining(kept_settings, sizeof kept_settings))
        facet_log(
            FACET_LOG_WARNING,
            "this daemon cannot undo settings of the shell that started it: %s; if they matter, end it and start it "
            "from another shell",
            kept_settings);
}

/* Warns of unknown variables. A private daemon has none, since its environment holds only known names. */
static void warn_of_variables(void)
{
    for (char **entry = environ; entry && *entry; entry++)
        if (facet_variable_is_unknown(*entry))
            facet_log(FACET_LOG_WARNING, "%.*s is no variable of Facet; 'facet config' lists them all",
                      (int)strcspn(*entry, "="), *entry);
}

/*
 * Prepares streams, signals and limits. Limits that are too low for other shells' programs only get a warning, except
 * in a private daemon, whose user does not know that it serves these programs too: such a daemon does not start.
 */
static enum facet_status prepare_process(const struct options *options, sigset_t *ret_signals,
                                         struct facet_error *error)
{
    struct facet_error limit_error;

    umask(077);
    unsetenv("OPENCL_LAYERS");
    unsetenv("OCL_ICD_LAYERS");
    unsetenv(FACET_ENV_VGPU_DIR);
    block_signals(ret_signals);
    if (!facet_surroundings_open_streams())
        return facet_error_errno(error, errno, "opening /dev/null");
    enum facet_status status = facet_surroundings_check_limits(&limit_error);
    facet_surroundings_raise_limits();
    if (status == FACET_OK)
        return FACET_OK;
    if (options->private)
        return facet_error_set(error, status, "%s", limit_error.message);
    facet_log(FACET_LOG_WARNING, "%s", limit_error.message);
    return FACET_OK;
}

static enum facet_status go_to_background(const struct options *options, struct ready *ready, struct facet_error *error)
{
    char log[FACET_PATH_SIZE + 16];

    if (options->foreground || options->lock_fd >= 0) /* an earlier program of this process went there */
        return FACET_OK;
    snprintf(log, sizeof log, "%s/facetd.log", options->runtime);
    return detach(log, ready, error);
}

/* Gives this process the settings of the configuration file, and the socket of the service manager, if there are any.
 */
static enum facet_status read_service(struct options *options, struct conf *conf, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    if (options->config[0])
        status = conf_read(options->config, options->config_is_named, conf, error);
    if (status == FACET_OK)
        status = conf_apply(conf, error);
    if (status != FACET_OK || options->socket_fd >= 0)
        return status;
    status = service_socket(&options->socket_fd, options->socket, sizeof options->socket, error);
    options->socket_is_passed = options->socket_fd >= 0;
    if (status == FACET_OK && options->socket_is_passed && !options->foreground)
        return facet_error_set(error, FACET_INVALID_ARGUMENT,
                               "the service manager passed a socket: expected --foreground beside it");
    return status;
}

static enum facet_status run_daemon(struct options *options, struct ready *ready, struct facet_error *error)
{
    FACET_CLEANUP_FD int lock = -1;
    struct server_socket kept = {.fd = -1};
    struct conf conf = {.exists = false};
    sigset_t signals;

    enum facet_status status = prepare_process(options, &signals, error);
    if (status == FACET_OK)
        status = read_service(options, &conf, error);
    if (status == FACET_OK)
        status = options_resolve(options, error);
    if (status == FACET_OK)
        status = facet_path_make_chosen(options->runtime, 0700, FACET_SETTING_RUNTIME_DIR, error);
    if (status == FACET_OK)
        status = go_to_background(options, ready, error);
    if (status == FACET_OK)
        status = take_lock(options, &lock, error);
    if (status != FACET_OK || lock < 0)
        return status;
    warn_of_surroundings(options);
    warn_of_variables();
    status = serve_clients(options, &conf, &signals, lock, ready, &kept, error);
    if (status != FACET_OK || kept.fd < 0)
        return status;
    options->socket_is_passed = kept.is_passed;
    conf_withdraw(&conf); /* the file's new values could else not take their place */
    status = service_start_again(options, lock, kept.fd, error);
    close(kept.fd);
    return status;
}

int main(int argc, char **argv)
{
    struct facet_error error;
    struct options options;

    signal(SIGXFSZ, SIG_IGN); /* a log that reached its limit (ulimit -f) does not end the daemon */
    options_read(argc, argv, &options);
    struct ready ready = {.requested_fd = options.ready_fd, .parent_fd = -1};
    enum facet_status status = run_daemon(&options, &ready, &error);
    if (status == FACET_OK) {
        ready_succeeded(&ready);
        return 0;
    }
    facet_log(FACET_LOG_ERROR, "%s", error.message);
    ready_failed(&ready, &error);
    return 1;
}
