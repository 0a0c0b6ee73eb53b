/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: judging a document by a JSON Schema: as much of draft 2020-12 as our own schemas use.
 * Never: reads a schema that is not ours; goes deeper into a document than its schema says.
 */
#ifndef FACET_SPEC_SCHEMA_H
#define FACET_SPEC_SCHEMA_H

#include <jansson.h>

#include "spec/violation.h"

/* Adds each breach to `violations`. FACET_INTERNAL: the schema has a keyword that is not known here. */
enum facet_status facet_schema_judge(const json_t *schema, const json_t *document, struct facet_violations *violations,
                                     struct facet_error *error);

#endif
