/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roles that programs in a vGPU play in the tests of launches.
 *
 * Owns: the names of the roles that need no other process.
 * Never: is called in the test's own process.
 */
#ifndef FACET_TEST_HIP_ROLES_H
#define FACET_TEST_HIP_ROLES_H

#define ROLES(X)                                                                                                       \
    X(each_form_of_launch_counts)                                                                                      \
    X(each_launch_of_a_call_counts)                                                                                    \
    X(launches_through_a_lookup_count)                                                                                 \
    X(refused_launches_cost_nothing)                                                                                   \
    X(transfers_of_each_shape_count_by_their_bytes)                                                                    \
    X(large_transfers_count_as_launches)                                                                               \
    X(a_graph_counts_as_one_launch)                                                                                    \
    X(captured_launches_do_not_count)                                                                                  \
    X(each_form_of_capture_is_recognised)                                                                              \
    X(a_streams_work_keeps_its_order)                                                                                  \
    X(reported_time_is_true)                                                                                           \
    X(streams_may_end_with_work_in_flight)                                                                             \
    X(a_device_may_be_reset_with_work_in_flight)                                                                       \
    X(threads_may_end_with_work_in_flight)                                                                             \
    X(a_child_of_fork_cannot_launch)                                                                                   \
    X(no_launch_stays_in_flight_on_a_lost_device)

/* Plays the role `name`, which is one of ROLES, "exit", "hang", "waits" or "outlives". Returns 0, or ends the process
 * with 1 and names the failed check. */
int execution_role(const char *name);

#endif
