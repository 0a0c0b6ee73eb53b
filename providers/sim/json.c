/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading a whole file, and the strict readers of json.h.
 * Never: knows the meaning of a profile or a script of faults.
 */
#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider_kit.h"

#define FILE_BYTES_MAX (1 << 20)

static enum facet_status read_all(int fd, const char *file, char **ret_text, size_t *ret_length,
                                  struct facet_error *error)
{
    char *text = malloc(FILE_BYTES_MAX + 1);
    size_t length = 0;
    ssize_t got = text ? 1 : 0;

    if (!text)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory to read %s", file);
    while (length <= FILE_BYTES_MAX && (got = read(fd, text + length, FILE_BYTES_MAX + 1 - length)) > 0)
        length += (size_t)got;
    if (got < 0 || length > FILE_BYTES_MAX) {
        free(text);
        return got < 0 ? facet_kit_fail(error, FACET_IO, "cannot read %s: %s", file, strerror(errno))
                       : facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s has more than the %d bytes expected at most",
                                        file, FILE_BYTES_MAX);
    }
    *ret_text = text;
    *ret_length = length;
    return FACET_OK;
}

enum facet_status sim_read_file(const char *file, char **ret_text, size_t *ret_length, struct facet_error *error)
{
    struct stat about;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not block the caller */
    enum facet_status status;

    if (fd < 0)
        return facet_kit_fail(error, errno == ENOENT ? FACET_NOT_FOUND : FACET_IO, "cannot open %s: %s", file,
                              strerror(errno));
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        status = read_all(fd, file, ret_text, ret_length, error);
    else
        status = facet_kit_fail(error, FACET_INVALID_ARGUMENT, "%s is not a regular file, as was expected", file);
    close(fd);
    return status;
}

enum facet_status sim_json_parse(const char *file, const char *text, size_t length, json_t **ret_root,
                                 struct facet_error *error)
{
    json_error_t why;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);

    if (!root)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "%s, line %d: %s; expected a JSON document", file,
                              why.line, why.text);
    *ret_root = root;
    return FACET_OK;
}

/* Describes a value for a message: the value itself if it is short, else its kind. */
static void describe_value(const json_t *value, char *text, size_t size)
{
    static const char *const kinds[] = {"an object", "an array", "a text", "a number",
                                        "a number",  "true",     "false",  "null"};
    size_t length = value ? json_dumpb(value, text, size - 1, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII) : 0;

    if (length > 0 && length < size)
        text[length] = '\0';
    else
        snprintf(text, size, "%s", value ? kinds[json_typeof(value)] : "missing");
}

void sim_json_refuse(const struct sim_json *at, const char *format, ...)
{
    struct sim_document *document = at->document;
    char value[48], expected[200];
    va_list arguments;

    if (document->status != FACET_OK)
        return;
    describe_value(at->value, value, sizeof value);
    va_start(arguments, format);
    vsnprintf(expected, sizeof expected, format, arguments);
    va_end(arguments);
    document->status = facet_kit_fail(document->error, FACET_INVALID_ARGUMENT, "%s: %s is %s; expected %s",
                                      document->file, at->path[0] ? at->path : "the document", value, expected);
}

struct sim_json sim_json_member(const struct sim_json *at, const char *name)
{
    struct sim_json member = {.document = at->document, .value = json_object_get(at->value, name)};
    const char *dot = at->path[0] ? "." : "";

    snprintf(member.path, sizeof member.path, "%.80s%s%.40s", at->path, dot, name);
    if (!member.value)
        sim_json_refuse(&member, "it to be present");
    return member;
}

struct sim_json sim_json_item(const struct sim_json *at, size_t index)
{
    struct sim_json item = {.document = at->document, .value = json_array_get(at->value, index)};

    snprintf(item.path, sizeof item.path, "%.100s[%zu]", at->path, index);
    return item;
}

bool sim_json_has(const struct sim_json *at, const char *name)
{
    return json_object_get(at->value, name) != NULL;
}

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

void sim_json_only(const struct sim_json *at, const char *const *names)
{
    const char *name;
    json_t *value;

    if (!json_is_object(at->value)) {
        sim_json_refuse(at, "an object");
        return;
    }
    json_object_foreach (at->value, name, value) {
        if (!is_among(name, names)) {
            struct sim_json member = sim_json_member(at, name);

            sim_json_refuse(&member, "no such member");
        }
    }
}

size_t sim_json_count(const struct sim_json *at, size_t low, size_t high)
{
    size_t count = json_array_size(at->value);

    if (json_is_array(at->value) && count >= low && count <= high)
        return count;
    sim_json_refuse(at, "an array of %zu to %zu items", low, high);
    return 0;
}

int64_t sim_json_integer(const struct sim_json *at, int64_t low, int64_t high)
{
    int64_t value = json_integer_value(at->value);

    if (json_is_integer(at->value) && value >= low && value <= high)
        return value;
    sim_json_refuse(at, "a whole number of %" PRId64 " to %" PRId64, low, high);
    return low;
}

static bool is_printable(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return true;
}

const char *sim_json_text(const struct sim_json *at, size_t size)
{
    size_t length = json_string_length(at->value);

    if (length > 0 && length < size && is_printable(json_string_value(at->value), length))
        return json_string_value(at->value);
    sim_json_refuse(at, "a text of 1 to %zu printable ASCII characters", size - 1);
    return "";
}

const char *sim_json_match(const struct sim_json *at, const char *pattern)
{
    const char *text = json_string_value(at->value);
    regex_t expression;
    bool fits = false;

    if (text && strlen(text) == json_string_length(at->value) &&
        regcomp(&expression, pattern, REG_EXTENDED | REG_NOSUB) == 0) {
        fits = regexec(&expression, text, 0, NULL, 0) == 0;
        regfree(&expression);
    }
    if (!fits)
        sim_json_refuse(at, "a text like %s", pattern);
    return fits ? text : "";
}

bool sim_json_flag(const struct sim_json *at)
{
    if (!json_is_boolean(at->value))
        sim_json_refuse(at, "true or false");
    return json_is_true(at->value);
}

uint32_t sim_json_choice(const struct sim_json *at, const struct sim_choice *choices)
{
    const char *text = json_string_value(at->value);
    char names[160] = "";

    for (const struct sim_choice *choice = choices; choice->name; choice++) {
        size_t length = strlen(names);

        if (text && strcmp(choice->name, text) == 0)
            return choice->value;
        snprintf(names + length, sizeof names - length, "%s\"%s\"", length ? ", " : "", choice->name);
    }
    sim_json_refuse(at, "one of %s", names);
    return choices->value;
}
