/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the characters of labels; see label.h. Never: depends on the locale. */
#include "base/label.h"

#include <stdio.h>
#include <string.h>

static bool is_alphanumeric(char letter)
{
    return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

enum facet_status facet_label_check_key(const char *key, size_t length, struct facet_error *error)
{
    bool good =
        length >= 1 && length <= FACET_LABEL_KEY_MOST && is_alphanumeric(key[0]) && is_alphanumeric(key[length - 1]);

    for (size_t i = 0; good && i < length; i++)
        good = is_alphanumeric(key[i]) || strchr("._/-", key[i]);
    if (good)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "labels",
                                "label '%.*s': expected a key of 1 to %u letters, digits and . _ / -, that begins and "
                                "ends with a letter or digit",
                                (int)(length < 70 ? length : 70), key, FACET_LABEL_KEY_MOST);
}

enum facet_status facet_label_check(const char *key, const char *value, struct facet_error *error)
{
    enum facet_status status = facet_label_check_key(key, strlen(key), error);
    size_t length = strlen(value);
    bool good = length >= 1 && length <= FACET_LABEL_VALUE_MOST;

    for (size_t i = 0; good && i < length; i++)
        good = value[i] >= ' ' && value[i] <= '~';
    if (status != FACET_OK || good)
        return status;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "labels",
                                "label %s: expected a value of 1 to %u printable ASCII characters, got %zu bytes", key,
                                FACET_LABEL_VALUE_MOST, length);
}

bool facet_label_next(const char *lines, size_t *at, struct facet_label_line *ret_label)
{
    const char *line = lines + *at;
    size_t length = strcspn(line, "\n"), key_length = strcspn(line, "=");

    if (key_length >= length)
        return false;
    *ret_label = (struct facet_label_line){line, line + key_length + 1, key_length, length - key_length - 1};
    *at += length + (line[length] == '\n');
    return true;
}

static bool has_key(const char *lines, const struct facet_label_line *wanted)
{
    struct facet_label_line label;

    for (size_t at = 0; facet_label_next(lines, &at, &label);)
        if (label.key_length == wanted->key_length && memcmp(label.key, wanted->key, label.key_length) == 0)
            return true;
    return false;
}

enum facet_status facet_label_merge(char lines[FACET_LABELS_SIZE], const char *change, struct facet_error *error)
{
    char merged[FACET_LABELS_SIZE] = "";
    const char *const sources[] = {lines, change};
    struct facet_label_line label;
    size_t used = 0, count = 0;

    for (size_t i = 0; i < 2; i++)
        for (size_t at = 0; facet_label_next(sources[i], &at, &label);) {
            if (i == 0 ? has_key(change, &label) : label.value_length == 0)
                continue;
            if (++count > FACET_LABELS_MOST)
                return facet_error_argument(error, FACET_OUT_OF_RANGE, "labels",
                                            "labels: more than %u with those that are there", FACET_LABELS_MOST);
            used += (size_t)snprintf(merged + used, sizeof merged - used, "%.*s=%.*s\n", (int)label.key_length,
                                     label.key, (int)label.value_length, label.value);
        }
    memcpy(lines, merged, sizeof merged);
    return FACET_OK;
}
