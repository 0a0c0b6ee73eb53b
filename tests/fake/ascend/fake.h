/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A made-up Ascend node for tests: the environment sets the answers of its two libraries.
 *
 * Owns: reading the scenario. FACET_FAKE_ASCEND holds "key=number" separated by commas. Each call reads it anew, so
 * that a test can change the node while it is open. Keys: each that a call of fake_number() or fake_card_number()
 * names; "fail:FUNCTION" or "fail:FUNCTION:CARD", for the error code that the function returns; "link:A-B", for the
 * kind of link between two cards.
 * Never: is packaged, or linked by anything that is packaged.
 */
#ifndef FACET_FAKE_ASCEND_H
#define FACET_FAKE_ASCEND_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_API __attribute__((visibility("default")))

/* The number that the scenario has for `key`, or `fallback`. */
static inline long long fake_number(const char *key, long long fallback)
{
    const char *at = getenv("FACET_FAKE_ASCEND");
    size_t length = strlen(key);

    while (at && *at) {
        if (strncmp(at, key, length) == 0 && at[length] == '=')
            return strtoll(at + length + 1, NULL, 0);
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return fallback;
}

/* The number of "KEY:CARD", else that of "KEY", which is for all cards; else `fallback`. */
static inline long long fake_card_number(const char *key, int card, long long fallback)
{
    char card_key[128];

    snprintf(card_key, sizeof card_key, "%s:%d", key, card);
    return fake_number(card_key, fake_number(key, fallback));
}

static inline int fake_failure(const char *function, int card)
{
    char key[96];

    snprintf(key, sizeof key, "fail:%s", function);
    return (int)fake_card_number(key, card, 0);
}

#endif
