/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a text that grows, and the list of finished texts that renderers return.
 * Never: reports running out of memory at each step: a draft that failed stays failed, and callers check `failed` at
 * the end.
 */
#ifndef FACET_PASSTHROUGH_ATTACH_DRAFT_H
#define FACET_PASSTHROUGH_ATTACH_DRAFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include <jansson.h>

#include <facet/attach.h>

struct facet_draft {
    char *text;
    size_t used, capacity;
    bool failed;
};

struct facet_attach_texts {
    char **items;
    uint32_t count, capacity;
    bool failed;
};

void facet_draft_add(struct facet_draft *draft, const char *format, ...) FACET_PRINTF(2, 3);

/* Adds `text` with each byte replaced by escape(byte). A byte for which escape() returns NULL is added unchanged. */
void facet_draft_add_escaped(struct facet_draft *draft, const char *text, const char *(*escape)(char byte));

/* Doubles a comma, which otherwise ends a value of QEMU's -device. */
const char *facet_escape_qemu(char byte);
const char *facet_escape_xml(char byte);
const char *facet_escape_alias(char byte); /* replaces the characters that libvirt does not allow in a device's name */

/* Moves the draft's text to the end of the list; the draft is empty again. */
void facet_texts_take(struct facet_attach_texts *texts, struct facet_draft *draft);
void facet_texts_add(struct facet_attach_texts *texts, const char *text);

/*
 * Returns the text of a JSON value with `end` behind it, which the caller frees. NULL: out of memory. json_dumps() is
 * not used, because it may silently leave out a key when memory runs out.
 */
char *facet_draft_json(const json_t *json, const char *end);

static inline void facet_cleanup_draft(struct facet_draft *draft)
{
    free(draft->text);
}
#define FACET_CLEANUP_DRAFT __attribute__((cleanup(facet_cleanup_draft)))

#endif
