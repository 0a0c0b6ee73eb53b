/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: lists of violations, and the path to a member while a document is walked.
 * Never: decides whether a value is a violation; grows without bound.
 */
#ifndef FACET_SPEC_VIOLATION_H
#define FACET_SPEC_VIOLATION_H

#include <stdbool.h>

#include <facet/spec.h>

/* One step of the path to a value, on the stack of the function that walks the document. */
struct facet_step {
    const struct facet_step *parent;
    const char *key; /* of an object's member; NULL: an array's item, or the document, whose parent is NULL */
    size_t index;
};

struct facet_violations *facet_violations_create(void);

/* Adds a violation at `step`. A full list only counts it; for lack of memory see facet_violations_broken(). */
void facet_violations_add(struct facet_violations *violations, const struct facet_step *step, const char *format, ...)
    FACET_PRINTF(3, 4);
/* Notes that memory ran out while a document was judged, so that the list is incomplete. */
void facet_violations_break(struct facet_violations *violations);
bool facet_violations_broken(const struct facet_violations *violations);

/* The JSON pointer of a step, to be freed; NULL when out of memory. */
char *facet_step_pointer(const struct facet_step *step);

static inline void facet_cleanup_violations(struct facet_violations **violations)
{
    facet_violations_destroy(*violations);
}
#define FACET_CLEANUP_VIOLATIONS __attribute__((cleanup(facet_cleanup_violations)))

#endif
