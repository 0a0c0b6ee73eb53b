/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that is meant to be in a vGPU and cannot enter it sees no device: somebody must be told why.
 *
 * Owns: the one line that an interposer writes. Never: writes a second one in a process, or harms a program whose
 * standard error is closed.
 */
#ifndef FACET_INTERPOSE_ENTRY_H
#define FACET_INTERPOSE_ENTRY_H

#include <facet/error.h>

/* Set to silence that line. */
#define FACET_ENV_QUIET "FACET_QUIET"

/* Tells standard error, once, and has it counted in the segment's folder `dir` (limiter/refused.h). */
void facet_entry_refused(const char *dir, const struct facet_error *error);

#endif
