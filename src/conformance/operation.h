/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations by their number, for checks that go through all of them.
 *
 * Owns: the name of an operation, and the checks that the provider has it and that a promise covers it.
 * Never: lists the operations a second time; session/operations.h does.
 */
#ifndef FACET_CONFORMANCE_OPERATION_H
#define FACET_CONFORMANCE_OPERATION_H

#include "conformance/check.h"
#include "session/operations.h"

/* Returns a name like "partition.create". */
const char *facet_check_operation_name(enum facet_operation_id operation);

bool facet_check_is_offered(const struct facet_check *check, enum facet_operation_id operation);

/* Whether a device claims the operation's capability; for an operation without a capability, whether it is offered. */
bool facet_check_is_promised(const struct facet_check *check, enum facet_operation_id operation);

#endif
