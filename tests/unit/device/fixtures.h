/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the paths of the fixture providers. Never: builds them; meson.build does. */
#ifndef TEST_DEVICE_FIXTURES_H
#define TEST_DEVICE_FIXTURES_H

#include <stdio.h>
#include <stdlib.h>

/* The path of a fixture, valid until the eighth call after this one. */
static inline const char *fixture(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof paths[0], "%s/fixture_%s.so", getenv("FACET_TEST_FIXTURES"), name);
    return path;
}

#endif
