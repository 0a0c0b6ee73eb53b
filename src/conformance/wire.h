/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the messages from a group's child to its watcher.
 * Never: sends more than PIPE_BUF bytes at once, so that a child that dies leaves complete messages only.
 */
#ifndef FACET_CONFORMANCE_WIRE_H
#define FACET_CONFORMANCE_WIRE_H

#include <limits.h>

#include "conformance/conformance.h"

enum facet_check_message_kind {
    FACET_CHECK_BEGUN,  /* result.text: the assertion that is under way now */
    FACET_CHECK_RESULT, /* a result: of the assertion under way, or a skip or note */
    FACET_CHECK_DONE,   /* the group is complete; no message follows */
};

struct facet_check_message {
    uint32_t kind;
    struct facet_conformance_result result;
};
FACET_STATIC_ASSERT(sizeof(struct facet_check_message) <= PIPE_BUF, "a message is written in one piece");

/* The exit status of a child that cannot report, because its watcher has ended. */
#define FACET_CHECK_EXIT_UNHEARD 113

#endif
