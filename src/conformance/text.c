/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the check of a provider's texts and of workers' names. Never: reads past a field's end. */
#include <string.h>

#include "conformance/check.h"

bool facet_check_is_text(const char *text, size_t size)
{
    size_t length = strnlen(text, size);

    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return length < size;
}

bool facet_check_is_worker(const char *text, size_t size)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

    if (!facet_check_is_text(text, size) || !text[0] || strchr("._-", text[0]))
        return false;
    return text[strspn(text, letters)] == '\0';
}
