/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the characters allowed in a line of text for people, and UTF-8. Never: changes a text's length in place. */
#ifndef FACET_BASE_TEXT_H
#define FACET_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* How many bytes the character at `text` has; 0: there is none, or it is no UTF-8. */
static inline size_t facet_text_character(const char *text)
{
    const unsigned char *at = (const unsigned char *)text, first = *at;
    /* The second byte's bounds exclude overlong forms, surrogates, and code points beyond Unicode. */
    unsigned char min = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char max = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    size_t length = first == 0     ? 0
                    : first < 0x80 ? 1
                    : first < 0xc2 ? 0
                    : first < 0xe0 ? 2
                    : first < 0xf0 ? 3
                    : first < 0xf5 ? 4
                                   : 0;

    for (size_t i = 1; i < length; i++)
        if (at[i] < (i == 1 ? min : 0x80) || at[i] > (i == 1 ? max : 0xbf))
            return 0;
    return length;
}

/* The code point of the character at `text`, which has `length` bytes by facet_text_character(); 0: none. */
static inline uint32_t facet_text_code(const char *text, size_t length)
{
    const unsigned char *at = (const unsigned char *)text;
    uint32_t code = length < 2 ? at[0] : at[0] & (0xffu >> (length + 1));

    for (size_t i = 1; i < length; i++)
        code = code << 6 | (at[i] & 0x3f);
    return length ? code : 0;
}

/* Whether the character at `text` is a control character: of ASCII, or of C1, which has two bytes in UTF-8. */
static inline bool facet_text_is_control(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    return at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
}

/*
 * Whether the character can mislead a reader: Unicode's format characters (Cf), which are invisible or reorder the text
 * behind them, and its ends of lines and paragraphs. File names may contain them.
 */
static inline bool facet_text_is_unseen(const char *text)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},
                  {0x890, 0x891},     {0x8e2, 0x8e2},     {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
                  {0x2060, 0x206f},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
                  {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0001, 0xe007f}};
    uint32_t code = facet_text_code(text, facet_text_character(text));

    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

/*
 * Replaces control characters, misleading characters and invalid UTF-8 by '?'. So a quoted value can neither break a
 * line in two nor control the terminal, and JSON can hold it, even if it was truncated within a character.
 */
static inline void facet_text_make_line(char *text)
{
    while (*text) {
        size_t length = facet_text_character(text);
        bool keep = length && !facet_text_is_control(text) && !facet_text_is_unseen(text);

        length = length ? length : 1;
        if (!keep)
            memset(text, '?', length);
        text += length;
    }
}

enum { FACET_TEXT_SHOWN_SIZE = 11 }; /* "<U+10FFFF>" */

/*
 * Writes the character at `text` as clang would: unchanged; as "<U+001B>" if it is a control character or misleading;
 * as "<9B>" if it is a byte that is not UTF-8. Returns the number of bytes of `text` that it stands for; 0 at the end.
 */
static inline size_t facet_text_show(const char *text, char ret_shown[FACET_TEXT_SHOWN_SIZE])
{
    const unsigned char *at = (const unsigned char *)text;
    size_t length = facet_text_character(text);

    if (!at[0])
        return 0;
    if (!length)
        snprintf(ret_shown, FACET_TEXT_SHOWN_SIZE, "<%02X>", at[0]);
    else if (facet_text_is_control(text) || facet_text_is_unseen(text))
        snprintf(ret_shown, FACET_TEXT_SHOWN_SIZE, "<U+%04X>", facet_text_code(text, length) & 0x1fffff);
    else
        snprintf(ret_shown, FACET_TEXT_SHOWN_SIZE, "%.*s", (int)length, text);
    return length ? length : 1;
}

#endif
