/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the struct of a node document, for the files that read and change it. Never: is a public header. */
#ifndef FACET_SPEC_SPEC_H
#define FACET_SPEC_SPEC_H

#include <facet/spec.h>

#include "spec/fields.h"
#include "spec/json.h"

struct facet_spec {
    json_t *root;
};

extern const struct facet_fields facet_slot_fields, facet_share_fields, facet_device_fields, facet_unit_fields,
    facet_precision_fields, facet_partitioning_fields, facet_component_fields;

/* The items of a member of the root; NULL when it is absent. */
static inline json_t *facet_spec_items(const struct facet_spec *spec, const char *member)
{
    return spec ? json_object_get(spec->root, member) : NULL;
}

static inline json_t *facet_spec_components(const struct facet_spec *spec)
{
    return json_object_get(facet_spec_items(spec, "node"), "components");
}

#endif
