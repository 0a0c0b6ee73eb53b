/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a limiter in a temporary folder, with one worker, and processes to register. Never: needs the daemon. */
#ifndef TEST_HOST_FIXTURE_H
#define TEST_HOST_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <facet/limiter.h>

#define MIB UINT64_C(1048576)
#define MS  UINT64_C(1000000)

/* A limiter of a host in the folder `dir` below the temporary folder `root`, and its only worker, "w". */
struct host {
    char root[64], dir[96];
    struct facet_limiter *limiter;
    struct facet_limiter_worker worker;
};

static inline void assert_ok(enum facet_status status, const struct facet_error *error)
{
    if (status != FACET_OK)
        fail_msg("%s: %s", facet_status_name(status), error->message);
}

static inline void host_open(struct host *host)
{
    struct facet_error error;

    assert_ok(facet_limiter_open(host->dir, &host->limiter, &error), &error);
}

static inline void host_create_worker(struct host *host)
{
    struct facet_error error;

    assert_ok(facet_limiter_worker_create(host->limiter, &host->worker, &error), &error);
}

static inline void host_adopt_worker(struct host *host)
{
    struct facet_error error;

    assert_ok(facet_limiter_worker_adopt(host->limiter, &host->worker, &error), &error);
}

static inline int host_setup(void **state)
{
    struct host *host = calloc(1, sizeof *host);

    snprintf(host->root, sizeof host->root, "/tmp/facet-host-XXXXXX");
    assert_non_null(mkdtemp(host->root));
    snprintf(host->dir, sizeof host->dir, "%s/vgpu", host->root);
    host->worker = (struct facet_limiter_worker){.size = sizeof host->worker,
                                                 .id = "w",
                                                 .device_id = "test:0",
                                                 .device_name = "a device",
                                                 .device_memory_bytes = 1024 * MIB};
    facet_limits_init(&host->worker.limits);
    host->worker.limits.memory_bytes = 64 * MIB;
    host_open(host);
    host_create_worker(host);
    *state = host;
    return 0;
}

static inline int host_remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

static inline int host_teardown(void **state)
{
    struct host *host = *state;

    facet_limiter_close(host->limiter);
    nftw(host->root, host_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(host);
    return 0;
}

static inline struct facet_limiter_state host_state(const struct host *host)
{
    struct facet_limiter_state state = {.size = sizeof state};
    struct facet_error error;

    assert_ok(facet_limiter_worker_state(host->limiter, "w", &state, &error), &error);
    return state;
}

static inline void host_register(const struct host *host, pid_t pid)
{
    struct facet_error error;

    assert_ok(facet_limiter_process_register(host->limiter, "w", pid, &error), &error);
}

static inline struct facet_limiter_verdict host_check_memory(const struct host *host, pid_t pid, int64_t bytes)
{
    struct facet_limiter_verdict verdict = {.size = sizeof verdict};
    struct facet_error error;

    assert_ok(facet_limiter_memory_check(host->limiter, "w", pid, bytes, &verdict, &error), &error);
    return verdict;
}

static inline struct facet_limiter_verdict host_check_compute(const struct host *host, pid_t pid, uint64_t busy_ns)
{
    struct facet_limiter_verdict verdict = {.size = sizeof verdict};
    struct facet_error error;

    assert_ok(facet_limiter_compute_check(host->limiter, "w", pid, busy_ns, &verdict, &error), &error);
    return verdict;
}

static inline void host_set_compute(struct host *host, uint32_t request_milli, uint32_t limit_milli)
{
    struct facet_limits limits = host->worker.limits;
    struct facet_error error;

    limits.compute_request_milli = request_milli;
    limits.compute_limit_milli = limit_milli;
    assert_ok(facet_limiter_worker_set_limits(host->limiter, "w", &limits, &error), &error);
}

/* Starts a process that does nothing until it is killed. The child never calls exec, so it shares this process's
 * descriptors, and the locks on them, until it has closed its own copies. The function returns only after that. */
static inline pid_t host_start_process(void)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close_range(3, ~0u, 0);
        alarm(120);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0); /* the child closed its end, so all its descriptors are closed */
    close(ready[0]);
    return pid;
}

static inline void host_end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#endif
