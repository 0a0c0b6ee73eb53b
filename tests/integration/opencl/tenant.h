/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants with units of their own. Each has a segment, and is the test program, started again in that segment with a
 * role.
 *
 * Owns: the segment of each tenant, its two pipes, and its heartbeat while the test waits for it.
 * Never: uses OpenCL in the test's own process.
 */
#ifndef FACET_TEST_TENANT_H
#define FACET_TEST_TENANT_H

#include <sys/types.h>

#include "fixture.h"

#define TENANT_OUT 3 /* the descriptor to which a role writes its findings */
#define TENANT_IN  4 /* the descriptor from which a role reads the test's byte before it goes on */

struct tenant {
    struct test_segment segment;
    pid_t pid;
    int from, to; /* the test's ends of the pipes */
};

/* Finds the first device and its units, in a child. If it has fewer than `least_units`, prints the reason to skip as
 * TAP and returns false. */
bool tenant_begin(const char *self, const char *driver, uint32_t least_units, uint32_t *ret_units);

/* The address of `count` units of that device, from `start` on; 0: of the whole device. */
const char *tenant_address(uint32_t start, uint32_t count);

/* Starts this program as `role` in a vGPU at `address`. */
void tenant_start(struct tenant *tenant, const char *address, const char *role);

/* Waits for a tenant's end. Returns its exit status, or 1000 + the signal that killed it. */
int tenant_end(struct tenant *tenant);

/* Reads one word from a tenant, and keeps its segment's heartbeat meanwhile. */
uint64_t tenant_read(struct tenant *tenant);

/* Sends a tenant the byte for which it waits. */
void tenant_go(struct tenant *tenant);

/* tenant_start() and tenant_end() in one call. */
int tenant_run(const char *address, const char *role);

/* Checks a condition in a role, and prints it if it fails. */
#define ROLE_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

#endif
