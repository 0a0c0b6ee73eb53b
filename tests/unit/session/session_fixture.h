/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening sessions with the fixtures of this room, and counting the processes and descriptors that are left. */
#ifndef TEST_SESSION_FIXTURE_H
#define TEST_SESSION_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <facet/session.h>

#include "../../provider_process.h"

/* The path of a fixture, valid until this thread's next call. */
static inline const char *fixture(const char *name)
{
    static _Thread_local char path[512];

    snprintf(path, sizeof path, "%s/session_%s.so", getenv("FACET_TEST_FIXTURES"), name);
    return path;
}

static inline struct facet_session *open_session_with(const char *name, const struct facet_session_options *options)
{
    struct facet_session *session = NULL;
    struct facet_error error = {0};

    if (facet_session_open(fixture(name), options, &session, &error) != FACET_OK)
        fail_msg("%s: %s", name, error.message);
    return session;
}

static inline struct facet_session *open_session(const char *name, enum facet_session_place place)
{
    const struct facet_session_options options = {.size = sizeof options, .place = place};

    return open_session_with(name, &options);
}

/* Counts the entries of a folder of /proc/self, "fd" or "task". */
static inline int count_entries(const char *folder)
{
    char path[64];
    int count = 0;

    snprintf(path, sizeof path, "/proc/self/%s", folder);
    DIR *entries = opendir(path);
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

static inline void assert_no_child_is_left(void)
{
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_true(provider_processes_end(getpid()));
}

#endif
