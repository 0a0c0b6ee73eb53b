/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that cannot enter its vGPU sees no device: this reports the reason to its user.
 *
 * Owns: the one line that an interposer writes. Never: writes a second line in a process, or harms a program whose
 * standard error is closed.
 */
#ifndef FACET_INTERPOSE_ENTRY_H
#define FACET_INTERPOSE_ENTRY_H

#include <facet/error.h>

/* The environment variable that silences the line when it is "1". */
#define FACET_ENV_QUIET "FACET_QUIET"

/* Writes the line to standard error, once, and counts the refusal in the segment's folder `dir` (limiter/refused.h). */
void facet_entry_refused(const char *dir, const struct facet_error *error);

#endif
