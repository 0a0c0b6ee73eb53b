/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading and writing a document of bounded size as JSON. Never: checks its contents. */
#include "spec/json.h"

#include <stdlib.h>

#include <facet/spec.h>

#include "base/text.h"

enum facet_status facet_json_no_memory(struct facet_error *error)
{
    return facet_error_set(error, FACET_NO_MEMORY, "no memory for a document");
}

static enum facet_status refuse_json(const json_error_t *fault, struct facet_error *error)
{
    if (!fault->text[0] || json_error_code(fault) == json_error_out_of_memory)
        return facet_json_no_memory(error);
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "document", "line %d, column %d: %s; expected JSON",
                                fault->line, fault->column, fault->text);
}

enum facet_status facet_json_read(const char *text, size_t bytes, json_t **ret_json, struct facet_error *error)
{
    json_error_t fault = {0};

    if (!text)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "text", "text: expected a document, not NULL");
    if (bytes > FACET_DOCUMENT_BYTES)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "document", "%zu bytes: expected at most %u", bytes,
                                    (unsigned)FACET_DOCUMENT_BYTES);
    /*
     * When memory runs out while a token grows, jansson drops a byte of the token and goes on, or calls the token
     * invalid. So a document is read twice: if the two results differ, memory ran out.
     */
    FACET_CLEANUP_JSON json_t *first = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &fault);
    json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &fault);
    if (!first && !json)
        return refuse_json(&fault, error);
    if (!first || !json || !json_equal(first, json)) {
        json_decref(json);
        return facet_json_no_memory(error);
    }
    *ret_json = json;
    return FACET_OK;
}

json_t *facet_json_copy(const json_t *json)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)json);

    if (json_object_size(copy) == json_object_size(json) && json_array_size(copy) == json_array_size(json))
        return copy;
    json_decref(copy);
    return NULL;
}

json_t *facet_json_deep_copy(const json_t *json)
{
    json_t *copy = json_deep_copy(json);

    if (!copy || json_equal(copy, json))
        return copy;
    json_decref(copy);
    return NULL;
}

/* json_dumps() drops bytes when memory runs out, so the text is measured first, and then written into our own
 * memory. */
static char *dump_json(const json_t *json, size_t flags, size_t extra, size_t *ret_bytes)
{
    size_t bytes = json_dumpb(json, NULL, 0, flags);
    char *text = bytes ? malloc(bytes + extra + 1) : NULL;

    if (!text || json_dumpb(json, text, bytes, flags) != bytes) {
        free(text);
        return NULL;
    }
    text[bytes] = '\0';
    *ret_bytes = bytes;
    return text;
}

enum facet_status facet_json_write(const json_t *json, char **ret_text, struct facet_error *error)
{
    size_t bytes = 0;
    char *text = dump_json(json, JSON_INDENT(2) | JSON_ENCODE_ANY, 1, &bytes);

    if (!text)
        return facet_json_no_memory(error);
    memcpy(text + bytes, "\n", 2);
    *ret_text = text;
    return FACET_OK;
}

char *facet_json_compact(const json_t *json)
{
    size_t bytes;

    return json ? dump_json(json, JSON_COMPACT, 0, &bytes) : NULL;
}

size_t facet_json_find(const json_t *array, const char *key, const char *text)
{
    size_t index, count = json_array_size(array);

    for (index = 0; index < count; index++) {
        const char *value = facet_json_text(json_array_get(array, index), key);
        if (value && text && strcmp(value, text) == 0)
            return index;
    }
    return count;
}

bool facet_json_is_utf8(const char *text)
{
    size_t length;

    if (!text)
        return false;
    while ((length = facet_text_character(text)) > 0)
        text += length;
    return *text == '\0';
}
