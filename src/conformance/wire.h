/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the messages from a group's child to its watcher, one at a time.
 * Never: is longer than a pipe takes in one piece, so that a child that dies leaves whole messages only.
 */
#ifndef FACET_CONFORMANCE_WIRE_H
#define FACET_CONFORMANCE_WIRE_H

#include <limits.h>

#include "conformance/conformance.h"

enum facet_check_message_kind {
    FACET_CHECK_BEGUN,  /* result.text: the assertion that is under way now */
    FACET_CHECK_RESULT, /* how it, or something else, came out */
    FACET_CHECK_DONE,   /* the group is through; nothing follows */
};

struct facet_check_message {
    uint32_t kind;
    struct facet_conformance_result result;
};
FACET_STATIC_ASSERT(sizeof(struct facet_check_message) <= PIPE_BUF, "a message is written in one piece");

/* The exit status of a child without a watcher. */
#define FACET_CHECK_EXIT_UNHEARD 113

#endif
