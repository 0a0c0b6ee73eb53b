/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One group in its child.
 *
 * Owns: the child's process state, the provider in it, and the choice of devices for each case.
 * Never: lets the child return into the caller's program.
 */
#ifndef FACET_CONFORMANCE_GROUP_H
#define FACET_CONFORMANCE_GROUP_H

#include "conformance/check.h"

/* Runs the group in the child and ends it; reports to `report_fd`. */
_Noreturn void facet_check_group_run(const struct facet_check_group *group,
                                     const struct facet_conformance_options *options, int report_fd);

#endif
