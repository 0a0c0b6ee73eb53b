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
    X(launch_calls)                                                                                                    \
    X(launches_of_one_call)                                                                                            \
    X(lookup)                                                                                                          \
    X(refused_launches)                                                                                                \
    X(transfer_shapes)                                                                                                 \
    X(transfers)                                                                                                       \
    X(graphs)                                                                                                          \
    X(capture)                                                                                                         \
    X(capture_forms)                                                                                                   \
    X(stream_order)                                                                                                    \
    X(reported_time)                                                                                                   \
    X(streams)                                                                                                         \
    X(reset)                                                                                                           \
    X(threads)                                                                                                         \
    X(fork)                                                                                                            \
    X(lost_device)

/* Plays the role `name`, which is one of ROLES, "exit", "hang", "waits" or "outlives". Returns 0, or ends the process
 * with 1 and names the failed check. */
int execution_role(const char *name);

#endif
