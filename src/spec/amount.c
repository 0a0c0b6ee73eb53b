/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: exact decimals and the names of slots as text. Never: goes through floating point. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <facet/spec.h>

enum { PLACES = 6, NAME_MAX_LENGTH = 128 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum facet_status wrong_amount(const char *text, const char *expected, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "amount", "amount '%.60s': expected %s",
                                text ? text : "NULL", expected);
}

/* value * 10 + digit, where that fits. */
static bool add_digit(uint64_t *value, char digit)
{
    uint64_t next;

    if (__builtin_mul_overflow(*value, UINT64_C(10), &next) ||
        __builtin_add_overflow(next, (uint64_t)(digit - '0'), &next))
        return false;
    *value = next;
    return next <= INT64_MAX;
}

enum facet_status facet_spec_parse_amount(const char *text, int64_t *ret_micro, struct facet_error *error)
{
    const char *at = text;
    uint64_t value = 0;
    unsigned places = 0;
    bool fits = true;

    if (!text || !ret_micro || !is_digit(*text))
        return wrong_amount(text, "a decimal of 0 or more, such as 1.5", error);
    for (; is_digit(*at); at++)
        fits = fits && add_digit(&value, *at);
    if (*at == '.' && is_digit(at[1])) {
        for (at++; is_digit(*at) && places < PLACES; at++, places++)
            fits = fits && add_digit(&value, *at);
        while (*at == '0') /* more places that say nothing */
            at++;
        if (is_digit(*at))
            return wrong_amount(text, "at most six decimals", error);
    }
    if (*at)
        return wrong_amount(text, "a decimal of 0 or more, such as 1.5", error);
    for (; places < PLACES; places++)
        fits = fits && add_digit(&value, '0');
    if (!fits)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "amount",
                                    "amount '%.60s': expected at most 9223372036854.775807", text);
    *ret_micro = (int64_t)value;
    return FACET_OK;
}

char *facet_spec_format_amount(int64_t micro, uint32_t places, char buffer[FACET_SPEC_AMOUNT_SIZE])
{
    uint64_t size = micro < 0 ? -(uint64_t)micro : (uint64_t)micro;
    const uint64_t whole = (uint64_t)FACET_SPEC_MICRO;

    snprintf(buffer, FACET_SPEC_AMOUNT_SIZE, "%s%" PRIu64 ".%06" PRIu64, micro < 0 ? "-" : "", size / whole,
             size % whole);
    char *point = strchr(buffer, '.'), *end = point + 1 + PLACES;
    while (end > point + 1 + (places < PLACES ? places : PLACES) && end[-1] == '0')
        end--;
    *(end == point + 1 ? point : end) = '\0';
    return buffer;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_' || c == '-';
}

/* How far a part goes; 0 when it does not begin as it should. */
static uint32_t part_length(const char *text, bool letter, const char *more)
{
    uint32_t length = 0;

    if (letter ? !(*text >= 'a' && *text <= 'z') : !(is_digit(*text) || (*text >= 'a' && *text <= 'z')))
        return 0;
    while (text[length] && (is_name(text[length]) || strchr(more, text[length])))
        length++;
    return length;
}

enum facet_status facet_spec_parse_slot_name(const char *text, struct facet_spec_slot_name *ret_name,
                                             struct facet_error *error)
{
    struct facet_spec_slot_name name = {0};
    const char *at = text;

    if (text && ret_name && strnlen(text, NAME_MAX_LENGTH + 1) <= NAME_MAX_LENGTH) {
        name.device = part_length(at, true, "");
        at += name.device;
        if (name.device && *at == '.') {
            name.major = part_length(++at, false, "");
            at += name.major;
        }
        if (name.major && *at == ':') {
            name.minor = part_length(++at, false, ".+");
            at += name.minor;
        }
    }
    /* What ends behind a separator has no part there. */
    if (!name.device || *at || at[-1] == '.' || at[-1] == ':')
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "slot_name",
                                    "slot_name '%.130s': expected device[.major[:minor]] in lower case, at most 128 "
                                    "characters",
                                    text ? text : "NULL");
    *ret_name = name;
    return FACET_OK;
}
