/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: judging a document by a JSON Schema, with the keywords of draft 2020-12 that our own schemas use.
 * Never: reads a schema that is not ours, or goes deeper into a document than its schema does.
 */
#ifndef FACET_SPEC_SCHEMA_H
#define FACET_SPEC_SCHEMA_H

#include <jansson.h>

#include "spec/violation.h"

/* Adds each breach to `violations`. FACET_INTERNAL: the schema has a keyword that is not known here. */
enum facet_status facet_schema_judge(const json_t *schema, const json_t *document, struct facet_violations *violations,
                                     struct facet_error *error);

#endif
