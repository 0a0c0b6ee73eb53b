/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: writing the line, and counting the refusal. Never: buffers, or lets a closed pipe end the program. */
#include "entry.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/quiet.h"
#include "limiter/refused.h"

/* The process that has written its line. A child of fork() is another process, and writes its own. */
static _Atomic int32_t reported_pid;

static void write_quietly(const char *text, size_t size)
{
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    (void)!write(STDERR_FILENO, text, size);
}

static void print_error(const struct facet_error *error)
{
    const char *quiet = getenv(FACET_ENV_QUIET);
    char line[FACET_REFUSED_RECORD_SIZE + 128];
    int32_t self = getpid();

    if (atomic_exchange(&reported_pid, self) == self || (quiet && strcmp(quiet, "1") == 0))
        return;
    int length =
        snprintf(line, sizeof line, "facet: process %d sees no device: %.*s (" FACET_ENV_QUIET "=1 silences this)\n",
                 self, (int)FACET_REFUSED_RECORD_SIZE, error->message);
    write_quietly(line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

void facet_entry_refused(const char *dir, const struct facet_error *error)
{
    int saved = errno;

    facet_refused_note(dir, error->message);
    print_error(error);
    errno = saved;
}
