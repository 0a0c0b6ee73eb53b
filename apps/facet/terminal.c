/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading TERM, the note's escape code. Never: decides what is worth a note. */
#include "terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool terminal_paints(int fd)
{
    const char *kind = getenv("TERM");

    return isatty(fd) && !(kind && strcmp(kind, "dumb") == 0);
}

void terminal_note(const char *text)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, terminal_paints(STDERR_FILENO) ? "%s" : "%s\n", text);
}

void terminal_note_end(void)
{
    if (terminal_paints(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}
