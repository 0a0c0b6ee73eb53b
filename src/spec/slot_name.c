/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the parts of a slot's name. Never: checks that such a slot exists. */
#include <stdbool.h>
#include <string.h>

#include <facet/spec.h>

enum { NAME_MAX_LENGTH = 128 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_' || c == '-';
}

/* The length of a part; 0 when its first character is not allowed. `letter`: a digit cannot be the first. */
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
    /* A separator must have a part behind it; a minor may have a dot at its end. */
    if (!name.device || *at || (!name.minor && (at[-1] == '.' || at[-1] == ':')))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "slot_name",
                                    "slot_name '%.130s': expected device[.major[:minor]] in lower case, at most 128 "
                                    "characters",
                                    text ? text : "NULL");
    *ret_name = name;
    return FACET_OK;
}
