/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: texts that grow as pieces are added, escaping of values, lists of texts. Never: chooses what a text says. */
#include "passthrough/attach/draft.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool grow_draft(struct facet_draft *draft, size_t more)
{
    size_t capacity = draft->capacity ? draft->capacity : 128;

    while (capacity - draft->used <= more)
        capacity *= 2;
    if (capacity == draft->capacity)
        return true;
    char *text = realloc(draft->text, capacity);
    if (!text) {
        draft->failed = true;
        return false;
    }
    draft->text = text;
    draft->capacity = capacity;
    return true;
}

static void add_bytes(struct facet_draft *draft, const char *bytes, size_t count)
{
    if (draft->failed || !grow_draft(draft, count))
        return;
    memcpy(draft->text + draft->used, bytes, count);
    draft->used += count;
    draft->text[draft->used] = '\0';
}

void facet_draft_add(struct facet_draft *draft, const char *format, ...)
{
    char piece[512];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof piece)
        draft->failed = true; /* a piece is short; long values go through facet_draft_add_escaped() */
    else
        add_bytes(draft, piece, (size_t)length);
}

void facet_draft_add_escaped(struct facet_draft *draft, const char *text, const char *(*escape)(char byte))
{
    for (; *text; text++) {
        const char *instead = escape ? escape(*text) : NULL;
        add_bytes(draft, instead ? instead : text, instead ? strlen(instead) : 1);
    }
}

const char *facet_escape_qemu(char byte)
{
    return byte == ',' ? ",," : NULL;
}

const char *facet_escape_xml(char byte)
{
    switch (byte) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '\'':
        return "&apos;";
    case '"':
        return "&quot;";
    default:
        return NULL;
    }
}

/* A dot becomes '_', because libvirt silently drops an alias with a dot. */
const char *facet_escape_alias(char byte)
{
    return byte == '.' ? "_" : NULL;
}

static bool make_room(struct facet_attach_texts *texts)
{
    uint32_t capacity = texts->capacity ? texts->capacity * 2 : 8;

    if (texts->count < texts->capacity)
        return true;
    char **items = realloc(texts->items, capacity * sizeof *items);
    if (!items)
        return false;
    texts->items = items;
    texts->capacity = capacity;
    return true;
}

void facet_texts_take(struct facet_attach_texts *texts, struct facet_draft *draft)
{
    if (draft->failed || !draft->text || !make_room(texts)) {
        texts->failed = true;
        free(draft->text);
    } else {
        texts->items[texts->count++] = draft->text;
    }
    *draft = (struct facet_draft){0};
}

void facet_texts_add(struct facet_attach_texts *texts, const char *text)
{
    FACET_CLEANUP_DRAFT struct facet_draft draft = {0};

    facet_draft_add_escaped(&draft, text, NULL);
    facet_texts_take(texts, &draft);
}

uint32_t facet_attach_texts_count(const struct facet_attach_texts *texts)
{
    return texts ? texts->count : 0;
}

const char *facet_attach_texts_at(const struct facet_attach_texts *texts, uint32_t index)
{
    return texts && index < texts->count ? texts->items[index] : NULL;
}

void facet_attach_texts_destroy(struct facet_attach_texts *texts)
{
    if (!texts)
        return;
    for (uint32_t i = 0; i < texts->count; i++)
        free(texts->items[i]);
    free(texts->items);
    free(texts);
}

char *facet_draft_json(const json_t *json, const char *end)
{
    size_t length = json ? json_dumpb(json, NULL, 0, JSON_COMPACT) : 0, tail = strlen(end) + 1;
    char *text = length ? malloc(length + tail) : NULL;

    if (!text || json_dumpb(json, text, length, JSON_COMPACT) != length) {
        free(text);
        return NULL;
    }
    memcpy(text + length, end, tail);
    return text;
}
