/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: declaring the cases of check_activity.c, which belong to the group `metrics`. Never: declares another case. */
#ifndef FACET_CONFORMANCE_ACTIVITY_H
#define FACET_CONFORMANCE_ACTIVITY_H

#include "conformance/check.h"

void facet_check_activity_clock(struct facet_check *check);
void facet_check_activity_memory(struct facet_check *check);
void facet_check_activity_busy(struct facet_check *check);
void facet_check_activity_process(struct facet_check *check);

#endif
