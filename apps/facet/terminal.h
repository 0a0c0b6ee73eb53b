/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the abilities of a terminal, and the note that is shown during a wait. Never: writes to anything else. */
#ifndef FACET_TERMINAL_H
#define FACET_TERMINAL_H

#include <stdbool.h>

/* Whether `fd` is a terminal with colours and a movable cursor (TERM is not "dumb"). */
bool terminal_paints(int fd);

/* Shows `text` if standard error is a terminal. terminal_note_end() erases it; a dumb terminal keeps it as a line. */
void terminal_note(const char *text);
void terminal_note_end(void);

#endif
