/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants of tests that give each its own units: a segment, and this program started again inside it with a role.
 *
 * Owns: the segment of each tenant, its two pipes, and its heartbeat while it is waited for.
 * Never: uses OpenCL in the test's own process.
 */
#ifndef FACET_TEST_TENANT_H
#define FACET_TEST_TENANT_H

#include <sys/types.h>

#include "fixture.h"

#define TENANT_OUT 3 /* where a role writes its findings */
#define TENANT_IN  4 /* where a role waits to be told to go on */

struct tenant {
    struct test_segment segment;
    pid_t pid;
    int from, to; /* the test's ends of the pipes */
};

/* The first device and its units, asked in a child. False, and the reason to skip said in TAP, when there are fewer. */
bool tenant_begin(const char *self, const char *driver, uint32_t least_units, uint32_t *ret_units);

/* The address of units of that device; count 0: of all of it. */
const char *tenant_address(uint32_t start, uint32_t count);

/* Starts this program as `role` in a vGPU at `address`, and waits for its end (1000 + signal when killed). */
void tenant_start(struct tenant *tenant, const char *address, const char *role);
int tenant_end(struct tenant *tenant);

/* One word from it and one byte to it; beats meanwhile. */
uint64_t tenant_read(struct tenant *tenant);
void tenant_go(struct tenant *tenant);

/* Start and end in one. */
int tenant_run(const char *address, const char *role);

/* In a role: says which check failed, so that a failed test can be read. */
#define ROLE_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

#endif
