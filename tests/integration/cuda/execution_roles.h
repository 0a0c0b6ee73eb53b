/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roles that programs in a vGPU play in the tests of launches.
 *
 * Owns: the names of the roles that need no other process.
 * Never: is called in the test's own process.
 */
#ifndef FACET_TEST_CUDA_EXECUTION_ROLES_H
#define FACET_TEST_CUDA_EXECUTION_ROLES_H

#define ROLES(X)                                                                                                       \
    X(each_form_of_launch_counts)                                                                                      \
    X(refused_launches_do_not_count)                                                                                   \
    X(transfers_of_each_shape_count_by_their_bytes)                                                                    \
    X(large_transfers_count_as_launches)                                                                               \
    X(a_graph_counts_as_one_launch)                                                                                    \
    X(captured_launches_do_not_count)                                                                                  \
    X(each_form_of_capture_is_recognised)                                                                              \
    X(a_capture_may_fork_and_join)                                                                                     \
    X(a_capture_that_fails_has_ended)                                                                                  \
    X(a_streams_work_keeps_its_order)                                                                                  \
    X(reported_time_is_true)                                                                                           \
    X(streams_may_end_with_work_in_flight)                                                                             \
    X(contexts_may_end_with_work_in_flight)                                                                            \
    X(threads_may_end_with_work_in_flight)                                                                             \
    X(threads_count_in_shards_of_their_own)                                                                            \
    X(a_child_of_fork_cannot_launch)                                                                                   \
    X(no_launch_stays_in_flight_on_a_lost_device)

/* Plays the role `name`: one of ROLES, "exit", "hang" or "waits". Returns 0, or ends the process with 1 and names the
 * failed check. */
int execution_role(const char *name);

#endif
