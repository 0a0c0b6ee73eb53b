/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes in which the library runs providers. They are no children of the program that uses the library, but
 * have that program's process id as their last argument.
 *
 * Owns: finding these processes, and waiting for their end. Never: ends a process.
 */
#ifndef FACET_TEST_PROVIDER_PROCESS_H
#define FACET_TEST_PROVIDER_PROCESS_H

#include <dirent.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define PROVIDER_PROGRAM "facet-provider-host"

static inline size_t provider_process_read(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;

    if (file)
        fclose(file);
    text[length] = '\0';
    return length;
}

/* Whether a process runs a provider for `user`, or is the supervisor of the process that does. */
static inline bool provider_process_is_of(pid_t pid, pid_t user)
{
    char text[8192];
    size_t length = provider_process_read(pid, "cmdline", text, sizeof text);

    if (length < 2 || strcmp(text, PROVIDER_PROGRAM) != 0)
        return false;
    size_t last = length - 1;
    while (last > 0 && text[last - 1] != '\0')
        last--;
    return atoi(text + last) == user;
}

/* A field of /proc/PID/stat, counted from 0 behind the name: 0 is the state, 1 the parent, 19 the time of the start. */
static inline unsigned long long provider_process_stat(pid_t pid, unsigned field)
{
    char text[1024], *at;

    provider_process_read(pid, "stat", text, sizeof text);
    at = strrchr(text, ')');
    at = at ? at + 2 : text;
    while (field-- && (at = strchr(at, ' ')))
        at++;
    return at ? strtoull(at, NULL, 10) : 0;
}

/* The last started process that runs a provider for `user`, or, with `supervisor`, the last started supervisor; 0 if
 * there is none. */
static inline pid_t provider_process_find(pid_t user, bool supervisor)
{
    unsigned long long youngest = 0;
    pid_t found = 0;
    DIR *processes = opendir("/proc");
    const struct dirent *entry;

    while (processes && (entry = readdir(processes))) {
        pid_t pid = atoi(entry->d_name);
        if (pid <= 0 || !provider_process_is_of(pid, user))
            continue;
        unsigned long long start = provider_process_stat(pid, 19);
        bool has_supervisor = provider_process_is_of((pid_t)provider_process_stat(pid, 1), user);
        if (has_supervisor != supervisor && start >= youngest) {
            youngest = start;
            found = pid;
        }
    }
    if (processes)
        closedir(processes);
    return found;
}

static inline pid_t provider_process(pid_t user)
{
    return provider_process_find(user, false);
}

/* Waits up to 30 s until no provider process and no supervisor is left. A supervisor reports its child's end before it
 * ends. */
static inline bool provider_processes_end(pid_t user)
{
    for (int i = 0; i < 3000; i++) {
        if (!provider_process_find(user, true) && !provider_process_find(user, false))
            return true;
        poll(NULL, 0, 10);
    }
    return false;
}

#endif
