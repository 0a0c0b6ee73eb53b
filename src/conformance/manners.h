/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a program that a provider must leave alone.
 *
 * Owns: the former standard output, signal handlers, mask and folder, and the check that they are unchanged.
 * Never: lets a provider's output through.
 */
#ifndef FACET_CONFORMANCE_MANNERS_H
#define FACET_CONFORMANCE_MANNERS_H

#include <signal.h>
#include <sys/types.h>

#include "conformance/check.h"

enum { FACET_CHECK_DESCRIPTORS = 1024 };

struct facet_check_manners {
    int output_fd; /* the provider's prints */
    mode_t mask;
    char folder[512];
    struct sigaction handlers[NSIG];
    char **environment;                      /* a copy, ended by NULL */
    bool inherited[FACET_CHECK_DESCRIPTORS]; /* descriptors that were open; those above are not checked */
};

/* Makes this process ready for a provider: its signals at their defaults, its output caught. */
bool facet_check_manners_begin(struct facet_check_manners *manners);

/* The assertion while the provider is open. */
void facet_check_manners_opened(const struct facet_check_manners *manners, struct facet_check *check);

/* The assertions at the end of a group. */
void facet_check_manners_end(const struct facet_check_manners *manners, struct facet_check *check);

#endif
