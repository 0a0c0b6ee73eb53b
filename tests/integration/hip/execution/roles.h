/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roles of programs in their vGPU, for the tests of launches.
 *
 * Owns: the names of roles that need no other process.
 * Never: is called in the test's own process.
 */
#ifndef FACET_TEST_HIP_ROLES_H
#define FACET_TEST_HIP_ROLES_H

#define ROLES(X)                                                                                                       \
    X(kinds)                                                                                                           \
    X(several)                                                                                                         \
    X(lookup)                                                                                                          \
    X(failures)                                                                                                        \
    X(shapes)                                                                                                          \
    X(transfers)                                                                                                       \
    X(graphs)                                                                                                          \
    X(capture)                                                                                                         \
    X(capture_forms)                                                                                                   \
    X(order)                                                                                                           \
    X(truth)                                                                                                           \
    X(streams)                                                                                                         \
    X(reset)                                                                                                           \
    X(threads)                                                                                                         \
    X(fork)                                                                                                            \
    X(lost)

/* Does the action of the name, or "exit", "hang", "waits", "outlives": 0, or ends the process with 1 and names the
 * failed check. */
int execution_role(const char *name);

#endif
