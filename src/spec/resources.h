/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the forms of records, the bounds of their file, and texts that grow. Never: is a public header. */
#ifndef FACET_SPEC_RESOURCES_H
#define FACET_SPEC_RESOURCES_H

#include <stdlib.h>

#include <facet/workload.h>

#include "spec/json.h"

#define FACET_RESOURCES_BYTES (UINT32_C(16) << 20) /* the longest file */

/* The form of a kind of record. */
struct facet_resources_form {
    const char *name;
    uint32_t texts;    /* how many texts the record has */
    bool number;       /* the record has a number and its decimals */
    uint32_t identity; /* how many of the first texts must be unique; 0: none; SINGLE: one record at most */
};
#define FACET_RESOURCES_SINGLE 9u

const struct facet_resources_form *facet_resources_form(uint32_t kind); /* NULL: no such kind */

static inline void facet_cleanup_resources(struct facet_resources **resources)
{
    facet_resources_destroy(*resources);
}
#define FACET_CLEANUP_RESOURCES __attribute__((cleanup(facet_cleanup_resources)))

/* --- a text that grows ------------------------------------------------------------------------------------------ */

struct facet_growing {
    char *text;
    size_t length, capacity;
    bool failed; /* memory ran out: further text is dropped */
};

void facet_growing_add(struct facet_growing *growing, const void *bytes, size_t length);
void facet_growing_format(struct facet_growing *growing, const char *format, ...) FACET_PRINTF(2, 3);

static inline void facet_cleanup_growing(struct facet_growing *growing)
{
    free(growing->text);
}
#define FACET_CLEANUP_GROWING __attribute__((cleanup(facet_cleanup_growing)))

#endif
