/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: formatting and writing one line. Never: keeps state; the level is read from the settings each time. */
#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"

bool facet_log_enabled(enum facet_log_level level)
{
    uint64_t max;

    /* A malformed $FACET_LOG was refused when the program started; here it must not silence anything. */
    if (facet_config_u64(FACET_SETTING_LOG, &max, NULL) != FACET_OK)
        return true;
    return (uint64_t)level <= max;
}

static void blank_controls(char *text)
{
    for (; *text; text++)
        if (iscntrl((unsigned char)*text))
            *text = '?';
}

void facet_log(enum facet_log_level level, const char *format, ...)
{
    char line[1024];
    va_list arguments;

    if (!facet_log_enabled(level))
        return;

    int saved = errno;
    int head = snprintf(line, sizeof line, "%.64s: %s: ", program_invocation_short_name, facet_log_level_name(level));
    va_start(arguments, format);
    vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
    va_end(arguments);
    blank_controls(line);

    size_t length = strlen(line);
    line[length++] = '\n';
    /* When stderr itself cannot be written, there is no other place for the message. */
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written;
    errno = saved;
}
