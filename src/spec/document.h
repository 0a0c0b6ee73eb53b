/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: judging a document of a kind: its schema, then the rules that a schema cannot express.
 * Never: changes the document.
 */
#ifndef FACET_SPEC_DOCUMENT_H
#define FACET_SPEC_DOCUMENT_H

#include "spec/json.h"
#include "spec/violation.h"

enum facet_status facet_document_judge(uint32_t document, const json_t *json, struct facet_violations **ret_violations,
                                       struct facet_error *error);

/* Unless the document is valid: FACET_INVALID_ARGUMENT, with the first violation and the number of violations. */
enum facet_status facet_document_demand(uint32_t document, const json_t *json, struct facet_error *error);

/* facet_document_demand(), which also gives the schema that it used. */
enum facet_status facet_document_demand_by(uint32_t document, const json_t *json, json_t **ret_schema,
                                           struct facet_error *error);

/* Reads a document, and demands that it is valid. */
enum facet_status facet_document_read(uint32_t document, const char *text, size_t bytes, json_t **ret_json,
                                      struct facet_error *error);

/* Rules that a schema cannot express. A member of the wrong type was reported before, and is skipped. */
void facet_rules_node(const json_t *node, struct facet_violations *violations);
void facet_rules_workload(const json_t *workload, struct facet_violations *violations);

/*
 * Reports each item of `array` (at `parent`) whose value of `key` occurred in an earlier item. When `second` is not
 * NULL, the values of both keys must have occurred together.
 */
void facet_rules_once(const json_t *array, const struct facet_step *parent, const char *key, const char *second,
                      struct facet_violations *violations);

#endif
