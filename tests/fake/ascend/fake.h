/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A made-up Ascend node for tests: the environment sets the answers of its two libraries.
 *
 * Owns: reading the scenario. FACET_FAKE_ASCEND holds "key=number" separated by commas, read anew at every call, so
 * that a test can change the node while it is open. Keys: a name of a value below, "fail:FUNCTION" or
 * "fail:FUNCTION:CARD" (the code that it answers), "link:A-B" (the way between two chips).
 * Never: ships, or is linked by anything that ships.
 */
#ifndef FACET_FAKE_ASCEND_H
#define FACET_FAKE_ASCEND_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_API __attribute__((visibility("default")))

/* The number that the scenario has for `key`, or `otherwise`. */
static inline long long fake_number(const char *key, long long otherwise)
{
    const char *at = getenv("FACET_FAKE_ASCEND");
    size_t length = strlen(key);

    while (at && *at) {
        if (strncmp(at, key, length) == 0 && at[length] == '=')
            return strtoll(at + length + 1, NULL, 0);
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return otherwise;
}

/* The same, where the scenario may have one number for all cards and another for this one. */
static inline long long fake_of_card(const char *key, int card, long long otherwise)
{
    char own[128];

    snprintf(own, sizeof own, "%s:%d", key, card);
    return fake_number(own, fake_number(key, otherwise));
}

static inline int fake_failure(const char *function, int card)
{
    char key[96];

    snprintf(key, sizeof key, "fail:%s", function);
    return (int)fake_of_card(key, card, 0);
}

#endif
