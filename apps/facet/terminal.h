/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the abilities of a terminal, and the passing note about a wait. Never: writes to anything else. */
#ifndef FACET_TERMINAL_H
#define FACET_TERMINAL_H

#include <stdbool.h>

/* Whether `fd` is a terminal that knows colours and moves its cursor (TERM is not "dumb"). */
bool terminal_paints(int fd);

/* Shows `text` when standard error is a terminal, and takes it back; on one that cannot, it stays as a line. */
void terminal_note(const char *text);
void terminal_note_end(void);

#endif
