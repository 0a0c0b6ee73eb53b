/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the edit distance. Never: allocates. */
#include "nearest.h"

#include <stddef.h>
#include <string.h>

enum { WORD_MAX = 32, FAR = 1000 /* above every distance that is worth a suggestion */ };

static unsigned smaller_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/*
 * How many letters must be inserted, dropped, replaced or swapped with their neighbour to turn one word into the other.
 * A swap looks two rows of the table back, so three rows are kept.
 */
static unsigned edit_distance(const char *from, const char *to)
{
    size_t height = strlen(from), width = strlen(to);
    unsigned rows[3][WORD_MAX + 1];

    if (width > WORD_MAX || height > WORD_MAX)
        return FAR;
    for (unsigned i = 0; i <= width; i++)
        rows[0][i] = i;
    for (size_t line = 1; line <= height; line++) {
        unsigned *row = rows[line % 3], *above = rows[(line + 2) % 3], *higher = rows[(line + 1) % 3];
        row[0] = (unsigned)line;
        for (size_t i = 1; i <= width; i++) {
            row[i] = smaller_of(above[i - 1] + (from[line - 1] != to[i - 1]), smaller_of(above[i], row[i - 1]) + 1);
            if (line > 1 && i > 1 && from[line - 1] == to[i - 2] && from[line - 2] == to[i - 1])
                row[i] = smaller_of(row[i], higher[i - 2] + 1);
        }
    }
    return rows[height % 3][width];
}

const char *nearest_word(const char *typed, const char *(*word_at)(const void *list, unsigned index), const void *list)
{
    unsigned best = strlen(typed) > 3 ? 3 : 2; /* a word with this many slips is too far away */
    const char *nearest = NULL;
    const char *word;

    for (unsigned i = 0; (word = word_at(list, i)); i++) {
        unsigned slips = edit_distance(typed, word);
        if (slips >= best)
            continue;
        best = slips;
        nearest = word;
    }
    return nearest;
}
