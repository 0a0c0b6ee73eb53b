/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the declarations of the cases of the group `mapping` that check what version 1.3 of the ABI added.
 * Never: declares a case of another group.
 */
#ifndef FACET_CONFORMANCE_PAGES_H
#define FACET_CONFORMANCE_PAGES_H

#include "conformance/check.h"

/* check_share_pages.c */
void facet_check_share_pages(struct facet_check *check);

/* check_move.c */
void facet_check_move_pages(struct facet_check *check);
void facet_check_move_under_launches(struct facet_check *check);

#endif
