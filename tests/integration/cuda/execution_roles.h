/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roles of programs in their vGPU, for the tests of launches.
 *
 * Owns: the names of roles that need no other process.
 * Never: is called in the test's own process.
 */
#ifndef FACET_TEST_CUDA_EXECUTION_ROLES_H
#define FACET_TEST_CUDA_EXECUTION_ROLES_H

#define ROLES(X)                                                                                                       \
    X(launch_calls)                                                                                                    \
    X(refused_launches)                                                                                                \
    X(transfer_shapes)                                                                                                 \
    X(transfers)                                                                                                       \
    X(graphs)                                                                                                          \
    X(capture)                                                                                                         \
    X(capture_forms)                                                                                                   \
    X(fork_join)                                                                                                       \
    X(broken_capture)                                                                                                  \
    X(stream_order)                                                                                                    \
    X(reported_time)                                                                                                   \
    X(streams)                                                                                                         \
    X(contexts)                                                                                                        \
    X(threads)                                                                                                         \
    X(own_shards)                                                                                                      \
    X(fork)                                                                                                            \
    X(lost_device)

/* Plays the role `name`: one of ROLES, "exit", "hang" or "waits". Returns 0, or ends the process with 1 and names the
 * failed check. */
int execution_role(const char *name);

#endif
