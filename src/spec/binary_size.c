/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: sizes with units that are powers of 1024, as in resource.txt. Never: rounds. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <facet/workload.h>

enum { DIGITS_MAX = 24 };

__extension__ typedef unsigned __int128 wide;

static const char units[] = "kmgt";

static enum facet_status refuse_size(const char *text, enum facet_status status, const char *expected,
                                     struct facet_error *error)
{
    return facet_error_argument(error, status, "size", "size '%.60s': expected %s", text ? text : "NULL", expected);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits with single underscores between them; false when there is no digit, or more than any size has. */
static bool read_digits(const char **at, wide *value, unsigned *ret_count)
{
    unsigned count = 0;

    while (is_digit(**at) || (**at == '_' && count && is_digit((*at)[1]))) {
        if (**at != '_') {
            if (*value > UINT64_MAX)
                return false;
            *value = *value * 10 + (unsigned char)(**at - '0');
            count++;
        }
        (*at)++;
    }
    *ret_count = count;
    return count > 0 && count <= DIGITS_MAX;
}

/* The factor of a suffix: 1 for none, 1024 for "k", "KiB"; 0: unknown. */
static uint64_t read_unit(const char *at)
{
    char first = (char)(*at | 0x20);
    const char *unit = *at ? strchr(units, first) : NULL;

    if (!*at)
        return 1;
    if (!unit)
        return 0;
    at++;
    if (*at == 'i' || *at == 'I')
        at++;
    if (*at == 'b' || *at == 'B')
        at++;
    return *at ? 0 : UINT64_C(1) << (10 * (unit - units + 1));
}

enum facet_status facet_spec_parse_binary(const char *text, int64_t *ret_bytes, struct facet_error *error)
{
    static const char expected[] = "whole bytes of 0 or more, such as 512, 1.5g or 2KiB";
    const char *at = text;
    unsigned digits, places = 0;
    wide value = 0;

    if (!text || !ret_bytes || !read_digits(&at, &value, &digits))
        return refuse_size(text, FACET_INVALID_ARGUMENT, expected, error);
    if (*at == '.' && is_digit(at[1])) {
        at++;
        if (!read_digits(&at, &value, &places))
            return refuse_size(text, FACET_INVALID_ARGUMENT, expected, error);
    }
    while (*at == ' ')
        at++;
    uint64_t unit = read_unit(at);
    if (unit == 0 || value > UINT64_MAX * (wide)1000000)
        return refuse_size(text, FACET_INVALID_ARGUMENT, expected, error);
    value *= unit;
    for (; places > 0; places--, value /= 10)
        if (value % 10 != 0)
            return refuse_size(text, FACET_INVALID_ARGUMENT, expected, error);
    if (value > INT64_MAX)
        return refuse_size(text, FACET_OUT_OF_RANGE, "less than 8 EiB", error);
    *ret_bytes = (int64_t)value;
    return FACET_OK;
}

char *facet_spec_format_binary(int64_t bytes, char buffer[FACET_AMOUNT_SIZE])
{
    uint64_t size = bytes < 0 ? 0 : (uint64_t)bytes, unit = 1;
    int index = -1;

    while (index < (int)strlen(units) - 1 && size / unit >= 1024) {
        unit *= 1024;
        index++;
    }
    uint64_t hundredths = (uint64_t)((wide)(size % unit) * 100 / unit);
    if (index < 0 || (wide)(size % unit) * 100 % unit != 0) {
        snprintf(buffer, FACET_AMOUNT_SIZE, "%" PRIu64, size);
        return buffer;
    }
    int length = snprintf(buffer, FACET_AMOUNT_SIZE, "%" PRIu64 ".%02" PRIu64, size / unit, hundredths);
    while (buffer[length - 1] == '0')
        length--;
    if (buffer[length - 1] == '.')
        length--;
    buffer[length] = units[index];
    buffer[length + 1] = '\0';
    return buffer;
}
