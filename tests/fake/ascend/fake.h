/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A made-up Ascend node for tests: the environment sets the answers of its two libraries.
 *
 * Owns: reading the scenario. FACET_FAKE_ASCEND holds "key=number" separated by commas, read anew at every call, so
 * that a test can change the node while it is open. Keys: those that the functions below read, "fail:FUNCTION" or
 * "fail:FUNCTION:CARD" (the error code that it returns), "link:A-B" (the kind of link between two cards).
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

/* The number of "KEY:CARD", else that of "KEY", which is for all cards; else `otherwise`. */
static inline long long fake_card_number(const char *key, int card, long long otherwise)
{
    char own[128];

    snprintf(own, sizeof own, "%s:%d", key, card);
    return fake_number(own, fake_number(key, otherwise));
}

static inline int fake_failure(const char *function, int card)
{
    char key[96];

    snprintf(key, sizeof key, "fail:%s", function);
    return (int)fake_card_number(key, card, 0);
}

#endif
