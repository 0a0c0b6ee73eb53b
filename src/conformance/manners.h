/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the host's process that a provider must not change ("manners" in the results).
 *
 * Owns: the state before the provider is loaded (output, signal handlers, file mask, environment, descriptors and
 * folder), and the check that it is unchanged.
 * Never: lets a provider's output reach the terminal or file to which the caller's program writes.
 */
#ifndef FACET_CONFORMANCE_MANNERS_H
#define FACET_CONFORMANCE_MANNERS_H

#include <signal.h>
#include <sys/types.h>

#include "conformance/check.h"

enum { FACET_CHECK_DESCRIPTORS = 1024 };

struct facet_check_manners {
    int output_fd; /* a memory file that receives standard output and standard error */
    mode_t file_mask;
    char folder[512];
    struct sigaction handlers[NSIG];
    char **environment;                      /* a copy, ended by NULL */
    bool inherited[FACET_CHECK_DESCRIPTORS]; /* descriptors that were open; higher numbers are not checked */
};

/* Resets this process's signals, catches its output, and records its state. */
bool facet_check_manners_begin(struct facet_check_manners *manners);

/* The assertion about descriptors, made while the provider is open. */
void facet_check_manners_opened(const struct facet_check_manners *manners, struct facet_check *check);

/* The assertions at the end of a group. */
void facet_check_manners_end(const struct facet_check_manners *manners, struct facet_check *check);

#endif
