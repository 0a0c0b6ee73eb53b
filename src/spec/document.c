/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the kinds of documents, their schemas and the order of checks. Never: reads a member of a document. */
#include "spec/document.h"

#include <inttypes.h>

#include "spec/schema.h"
#include "spec/spec_schemas.h"

static const struct {
    const char *name;
    const char *schema;
    size_t bytes;
    void (*rules)(const json_t *json, struct facet_violations *violations);
} kinds[] = {
    [FACET_DOCUMENT_NODE] = {"node", schema_node, sizeof schema_node - 1, facet_rules_node},
    [FACET_DOCUMENT_WORKLOAD] = {"workload", schema_workload, sizeof schema_workload - 1, facet_rules_workload},
};

static bool is_kind(uint32_t document)
{
    return document < sizeof kinds / sizeof kinds[0];
}

const char *facet_document_name(uint32_t document)
{
    return is_kind(document) ? kinds[document].name : NULL;
}

const char *facet_document_schema(uint32_t document)
{
    return is_kind(document) ? kinds[document].schema : NULL;
}

static enum facet_status read_schema(uint32_t document, json_t **ret_schema, struct facet_error *error)
{
    return facet_json_read(kinds[document].schema, kinds[document].bytes, ret_schema, error);
}

static enum facet_status validate_by(const json_t *schema, uint32_t document, const json_t *json,
                                     struct facet_violations **ret_violations, struct facet_error *error)
{
    FACET_CLEANUP_VIOLATIONS struct facet_violations *violations = facet_violations_create();

    if (!violations)
        return facet_json_no_memory(error);
    enum facet_status status = facet_schema_judge(schema, json, violations, error);
    if (status != FACET_OK)
        return status;
    kinds[document].rules(json, violations);
    if (facet_violations_broken(violations))
        return facet_json_no_memory(error);
    *ret_violations = violations;
    violations = NULL;
    return FACET_OK;
}

enum facet_status facet_document_judge(uint32_t document, const json_t *json, struct facet_violations **ret_violations,
                                       struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *schema = NULL;
    enum facet_status status = read_schema(document, &schema, error);

    return status == FACET_OK ? validate_by(schema, document, json, ret_violations, error) : status;
}

enum facet_status facet_document_demand_by(uint32_t document, const json_t *json, json_t **ret_schema,
                                           struct facet_error *error)
{
    FACET_CLEANUP_VIOLATIONS struct facet_violations *violations = NULL;
    FACET_CLEANUP_JSON json_t *schema = NULL;
    struct facet_violation first = {.size = sizeof first};
    enum facet_status status = read_schema(document, &schema, error);

    if (status == FACET_OK)
        status = validate_by(schema, document, json, &violations, error);
    if (status != FACET_OK)
        return status;
    if (facet_violations_total(violations) == 0) {
        *ret_schema = json_incref(schema);
        return FACET_OK;
    }
    facet_violations_get(violations, 0, &first, NULL);
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "document", "%s: %s (%" PRIu64 " in all)",
                                first.pointer && first.pointer[0] ? first.pointer : "/", first.message,
                                facet_violations_total(violations));
}

enum facet_status facet_document_demand(uint32_t document, const json_t *json, struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *schema = NULL;

    return facet_document_demand_by(document, json, &schema, error);
}

enum facet_status facet_document_read(uint32_t document, const char *text, size_t bytes, json_t **ret_json,
                                      struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *json = NULL;
    enum facet_status status = facet_json_read(text, bytes, &json, error);

    if (status == FACET_OK)
        status = facet_document_demand(document, json, error);
    if (status != FACET_OK)
        return status;
    *ret_json = json;
    json = NULL;
    return FACET_OK;
}

enum facet_status facet_document_check(uint32_t document, const char *text, size_t bytes,
                                       struct facet_violations **ret_violations, struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *json = NULL;

    if (!is_kind(document) || !ret_violations)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "document", "document %" PRIu32 ": expected a kind",
                                    document);
    enum facet_status status = facet_json_read(text, bytes, &json, error);
    return status == FACET_OK ? facet_document_judge(document, json, ret_violations, error) : status;
}
