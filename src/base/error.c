/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: filling struct facet_error. Never: allocates, prints or logs. */
#include <facet/error.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const char ellipsis[] = "...";

/* Formats one line into a buffer of fixed size. A line that does not fit is cut, and ends in "..." to show that. */
static void format_into(char *buffer, size_t size, const char *format, va_list arguments)
{
    int length = vsnprintf(buffer, size, format, arguments);

    if (length < 0)
        buffer[0] = '\0';
    else if ((size_t)length >= size)
        memcpy(buffer + size - sizeof ellipsis, ellipsis, sizeof ellipsis);
    facet_text_make_line(buffer);
}

/* Adds ": text" to a message, which is cut in the same way as in format_into(). */
static void append_text(char *message, size_t size, const char *text)
{
    size_t used = strlen(message);

    if ((size_t)snprintf(message + used, size - used, ": %s", text) >= size - used)
        memcpy(message + size - sizeof ellipsis, ellipsis, sizeof ellipsis);
    facet_text_make_line(message);
}

static void set_error(struct facet_error *error, enum facet_status status, const char *argument, const char *format,
                      va_list arguments)
{
    error->status = status;
    snprintf(error->argument, sizeof error->argument, "%s", argument ? argument : "");
    facet_text_make_line(error->argument);
    format_into(error->message, sizeof error->message, format, arguments);
}

enum facet_status facet_error_set(struct facet_error *error, enum facet_status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    if (error)
        set_error(error, status, NULL, format, arguments);
    va_end(arguments);
    return status;
}

enum facet_status facet_error_argument(struct facet_error *error, enum facet_status status, const char *argument,
                                       const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    if (error)
        set_error(error, status, argument, format, arguments);
    va_end(arguments);
    return status;
}

static enum facet_status status_of_errno(int errnum)
{
    switch (errnum) {
    case ENOENT:
    case ESRCH:
        return FACET_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return FACET_PERMISSION;
    case EEXIST:
        return FACET_ALREADY_EXISTS;
    case ENOSPC:
    case EDQUOT:
        return FACET_NO_SPACE;
    case ENOMEM:
        return FACET_NO_MEMORY;
    case EAGAIN:
    case EBUSY:
        return FACET_BUSY;
    case ETIMEDOUT:
        return FACET_TIMEOUT;
    default:
        return FACET_IO;
    }
}

enum facet_status facet_error_errno(struct facet_error *error, int errnum, const char *format, ...)
{
    enum facet_status status = status_of_errno(errnum);
    va_list arguments;

    if (!error)
        return status;
    va_start(arguments, format);
    set_error(error, status, NULL, format, arguments);
    va_end(arguments);
    append_text(error->message, sizeof error->message, strerror(errnum));
    return status;
}

enum facet_status facet_error_prefix(struct facet_error *error, const char *format, ...)
{
    char old[sizeof error->message];
    va_list arguments;

    if (!error)
        return FACET_INTERNAL;
    memcpy(old, error->message, sizeof old);
    va_start(arguments, format);
    format_into(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    append_text(error->message, sizeof error->message, old);
    return error->status;
}
