/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what may stand in a line of text for people. Never: changes a text's length. */
#ifndef FACET_BASE_TEXT_H
#define FACET_BASE_TEXT_H

/* A quoted value must neither break a line in two nor speak to the terminal: control bytes become '?'. */
static inline void facet_text_make_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

#endif
