/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the common part of reading and writing a resource.txt. Never: is a public header. */
#ifndef FACET_SPEC_LEGACY_H
#define FACET_SPEC_LEGACY_H

#include "spec/resources.h"

/* The format has no keys for owner and handle, so Facet adds these two. */
#define FACET_LEGACY_OWNER  "FACET_OWNER"
#define FACET_LEGACY_HANDLE "FACET_HANDLE"
#define FACET_LEGACY_SHARES "_SHARES"

/* Whether a key has a meaning in the format, so that it cannot be used for data. */
static inline bool facet_legacy_is_reserved(const char *key)
{
    static const char *const keys[] = {"SCRATCH_SIZE",    "MOUNTS",           "SLOTS",
                                       "UNIFIED_DEVICES", FACET_LEGACY_OWNER, FACET_LEGACY_HANDLE};
    size_t length = strlen(key), tail = strlen(FACET_LEGACY_SHARES);

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return length >= tail && strcmp(key + length - tail, FACET_LEGACY_SHARES) == 0;
}

#endif
