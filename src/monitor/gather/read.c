/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading lines, numbers and fields of kernel texts. Never: interprets a value. */
#include "monitor/gather/read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static enum facet_unmeasured reason_of(int errnum)
{
    switch (errnum) {
    case ENOENT:
    case ENOTDIR:
    case EOPNOTSUPP:
        return FACET_UNMEASURED_ABSENT;
    case EACCES:
    case EPERM:
        return FACET_UNMEASURED_PERMISSION;
    case ESRCH:
    case ENODEV:
        return FACET_UNMEASURED_GONE;
    default:
        return FACET_UNMEASURED_IO;
    }
}

/* ---- lines ---- */

struct lines {
    char buffer[GATHER_LINE_MAX];
    size_t length;
    gather_line_func take;
    void *context;
    bool enough; /* `take` wants no more lines */
    bool cut;    /* lines that are too long are cut off, not refused */
    bool whole;  /* the whole file is one line: an end of line becomes a blank */
};

static enum facet_unmeasured take_line(struct lines *lines)
{
    lines->buffer[lines->length] = '\0';
    if (strlen(lines->buffer) != lines->length)
        return FACET_UNMEASURED_MALFORMED;
    lines->length = 0;
    lines->enough = !lines->take(lines->context, lines->buffer);
    return FACET_MEASURED;
}

/* A line that was cut off ends with '?', so that the beginning of a number is not taken for the number. */
static enum facet_unmeasured too_long(struct lines *lines)
{
    lines->buffer[lines->length - 1] = '?';
    return lines->cut ? FACET_MEASURED : FACET_UNMEASURED_MALFORMED;
}

static enum facet_unmeasured take_lines(struct lines *lines, const char *bytes, size_t count)
{
    enum facet_unmeasured reason = FACET_MEASURED;

    for (size_t i = 0; i < count && !lines->enough && reason == FACET_MEASURED; i++) {
        if (bytes[i] == '\n' && !lines->whole)
            reason = take_line(lines);
        else if (lines->length == sizeof lines->buffer - 1)
            reason = too_long(lines);
        else
            lines->buffer[lines->length++] = bytes[i] == '\n' ? ' ' : bytes[i];
    }
    return reason;
}

static enum facet_unmeasured finish_lines(struct lines *lines)
{
    return lines->length > 0 && !lines->enough ? take_line(lines) : FACET_MEASURED;
}

enum facet_unmeasured gather_text(const char *text, size_t length, gather_line_func take, void *context)
{
    struct lines lines = {.take = take, .context = context};
    enum facet_unmeasured reason = take_lines(&lines, text, length);

    return reason == FACET_MEASURED ? finish_lines(&lines) : reason;
}

static enum facet_unmeasured read_lines(int fd, struct lines *lines)
{
    enum facet_unmeasured reason = FACET_MEASURED;
    char bytes[GATHER_LINE_MAX];
    size_t total = 0;

    while (!lines->enough && reason == FACET_MEASURED) {
        ssize_t got = read(fd, bytes, sizeof bytes);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return reason_of(errno);
        if (got == 0)
            return finish_lines(lines);
        total += (size_t)got;
        reason = total > GATHER_FILE_MAX ? FACET_UNMEASURED_MALFORMED : take_lines(lines, bytes, (size_t)got);
    }
    return reason;
}

static enum facet_unmeasured read_file(int directory, const char *path, struct lines *lines)
{
    FACET_CLEANUP_FD int fd = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    struct stat status;

    if (fd < 0)
        return reason_of(errno);
    if (fstat(fd, &status) < 0)
        return reason_of(errno);
    /* The kernel's texts are regular files: a directory, a pipe or a device is refused. */
    return S_ISREG(status.st_mode) ? read_lines(fd, lines) : FACET_UNMEASURED_MALFORMED;
}

enum facet_unmeasured gather_file(int directory, const char *path, gather_line_func take, void *context)
{
    return read_file(directory, path, &(struct lines){.take = take, .context = context});
}

enum facet_unmeasured gather_file_whole(int directory, const char *path, gather_line_func take, void *context)
{
    return read_file(directory, path, &(struct lines){.take = take, .context = context, .whole = true});
}

enum facet_unmeasured gather_file_cut(int directory, const char *path, gather_line_func take, void *context)
{
    return read_file(directory, path, &(struct lines){.take = take, .context = context, .cut = true});
}

/* ---- words and numbers ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static char *skip_blanks(char *text)
{
    while (is_blank(*text))
        text++;
    return text;
}

enum facet_unmeasured gather_number(char **text, int64_t *ret_value)
{
    char *c = skip_blanks(*text), *begin = c;
    bool overflow = false;
    int64_t value = 0;

    for (; *c >= '0' && *c <= '9'; c++)
        overflow = overflow || __builtin_mul_overflow(value, INT64_C(10), &value) ||
                   __builtin_add_overflow(value, (int64_t)(*c - '0'), &value);
    if (c == begin || (*c && !is_blank(*c)))
        return FACET_UNMEASURED_MALFORMED;
    *text = skip_blanks(c);
    if (overflow)
        return FACET_UNMEASURED_OUT_OF_RANGE;
    *ret_value = value;
    return FACET_MEASURED;
}

bool gather_skip_word(char **text, const char *name)
{
    size_t length = strlen(name);

    if (strncmp(*text, name, length) != 0 || ((*text)[length] && !is_blank((*text)[length])))
        return false;
    *text = skip_blanks(*text + length);
    return true;
}

char *gather_next_word(char **text)
{
    char *word = skip_blanks(*text), *end = word;

    while (*end && !is_blank(*end))
        end++;
    *text = *end ? end + 1 : end;
    *end = '\0';
    return *word ? word : NULL;
}

enum facet_unmeasured gather_add(int64_t value, int64_t *sum)
{
    int64_t result;

    if (__builtin_add_overflow(*sum, value, &result))
        return FACET_UNMEASURED_OUT_OF_RANGE;
    *sum = result;
    return FACET_MEASURED;
}

enum facet_unmeasured gather_multiply(int64_t factor, int64_t *value)
{
    int64_t result;

    if (__builtin_mul_overflow(*value, factor, &result))
        return FACET_UNMEASURED_OUT_OF_RANGE;
    *value = result;
    return FACET_MEASURED;
}

/* ---- readings ---- */

static struct gather_value read_value(char *text, const struct gather_fields *fields)
{
    struct gather_value value = {0};

    value.reason = gather_number(&text, &value.value);
    if (value.reason == FACET_MEASURED && fields->unit && !gather_skip_word(&text, fields->unit))
        value.reason = FACET_UNMEASURED_MALFORMED;
    if (value.reason == FACET_MEASURED && *text)
        value.reason = FACET_UNMEASURED_MALFORMED;
    if (value.reason == FACET_MEASURED)
        value.reason = gather_multiply(fields->factor, &value.value);
    return value;
}

bool gather_take_field(void *context, char *line)
{
    struct gather_fields *fields = context;

    for (size_t i = 0; i < fields->count; i++) {
        char *text = line;

        if (!gather_skip_word(&text, fields->field[i].name))
            continue;
        /* A name that comes twice is malformed: it is unknown which value holds. */
        if (fields->field[i].value.reason != FACET_UNMEASURED_ABSENT)
            fields->field[i].value.reason = FACET_UNMEASURED_MALFORMED;
        else
            fields->field[i].value = read_value(text, fields);
    }
    return true;
}

void gather_read_fields(int directory, const char *path, struct gather_fields *fields)
{
    enum facet_unmeasured reason = gather_file_cut(directory, path, gather_take_field, fields);

    if (reason == FACET_MEASURED)
        return;
    /* Values read before the failure are kept. An absent value may be absent because of the failure. */
    for (size_t i = 0; i < fields->count; i++)
        if (fields->field[i].value.reason == FACET_UNMEASURED_ABSENT)
            fields->field[i].value.reason = reason;
}

bool gather_take_single(void *context, char *line)
{
    struct gather_value *value = context;

    if (value->reason != FACET_UNMEASURED_ABSENT) {
        value->reason = FACET_UNMEASURED_MALFORMED; /* a second line */
        return false;
    }
    if (strcmp(line, "max") == 0)
        value->reason = FACET_UNMEASURED_UNLIMITED;
    else
        *value = read_value(line, &(struct gather_fields){.factor = 1});
    return true;
}

struct gather_value gather_read_single(int directory, const char *path)
{
    struct gather_value value = GATHER_ABSENT;
    enum facet_unmeasured reason = gather_file(directory, path, gather_take_single, &value);

    if (reason != FACET_MEASURED)
        value.reason = reason;
    else if (value.reason == FACET_UNMEASURED_ABSENT)
        value.reason = FACET_UNMEASURED_MALFORMED; /* the file exists, and is empty */
    return value;
}

/* ---- the answer ---- */

enum facet_status gather_begin(const struct facet_measurement *measurements, const uint32_t *count, uint32_t needed,
                               struct facet_error *error)
{
    if (!measurements || !count)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "measurements",
                                    "expected room for measurements, and how many");
    if (*count < needed)
        return facet_error_argument(error, FACET_TOO_SMALL, "count", "count %" PRIu32 ": expected %" PRIu32 " or more",
                                    *count, needed);
    return FACET_OK;
}

void gather_put_of(struct gather_output *output, enum gather_meter meter, struct gather_value value,
                   struct gather_value capacity)
{
    struct facet_measurement *out = &output->out[output->count++];

    *out = (struct facet_measurement){.size = sizeof *out,
                                      .reason = value.reason,
                                      .meter = facet_meter_at(meter),
                                      .time_ns = output->time_ns,
                                      .identity = output->identity};
    if (value.reason != FACET_MEASURED)
        return;
    out->value = value.value;
    out->has_capacity = capacity.reason == FACET_MEASURED;
    out->capacity = out->has_capacity ? capacity.value : 0;
}

void gather_put(struct gather_output *output, enum gather_meter meter, struct gather_value value)
{
    gather_put_of(output, meter, value, GATHER_ABSENT);
}
