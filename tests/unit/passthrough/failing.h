/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: failures of the Nth allocation, and of the Nth file that the scan opens, or an action before that file is
 * opened. The linker's --wrap replaces the calls.
 * Never: fails unless a test asked for it.
 */
#ifndef FACET_TEST_PASSTHROUGH_FAILING_H
#define FACET_TEST_PASSTHROUGH_FAILING_H

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

struct failing {
    uint64_t calls, at;      /* allocations; `at` 0: none fails */
    uint64_t opens, open_at; /* opened files */
    int open_errno;          /* 0: the file is opened after `before_open` */
    void (*before_open)(void *context);
    void *context;
};

static struct failing failing;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_reallocarray(void *old, size_t count, size_t bytes);
long __real_syscall(long number, ...);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_reallocarray(void *old, size_t count, size_t bytes);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

static bool failing_now(void)
{
    bool now = failing.at != 0 && ++failing.calls == failing.at;

    if (now)
        errno = ENOMEM;
    return now;
}

void *__wrap_malloc(size_t bytes)
{
    return failing_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return failing_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_reallocarray(void *old, size_t count, size_t bytes)
{
    return failing_now() ? NULL : __real_reallocarray(old, count, bytes);
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_openat2 && ++failing.opens == failing.open_at) {
        if (failing.before_open)
            failing.before_open(failing.context);
        if (failing.open_errno) {
            errno = failing.open_errno;
            return -1;
        }
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

#endif
