/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tables that map the members of a struct to members of JSON, and the conversions by them.
 * Never: changes a member that no table names.
 */
#ifndef FACET_SPEC_FIELDS_H
#define FACET_SPEC_FIELDS_H

#include "spec/json.h"

enum facet_field_kind {
    FACET_FIELD_TEXT,   /* const char *; NULL is absent */
    FACET_FIELD_U64,    /* present when its bit is set */
    FACET_FIELD_U32,    /* present when its bit is set */
    FACET_FIELD_BOOL,   /* uint32_t, present when its bit is set */
    FACET_FIELD_AMOUNT, /* int64_t micro-units, present when its bit is set; a text in JSON */
    FACET_FIELD_NAME,   /* uint32_t, the name of its value in JSON; a value without a name is absent */
};

struct facet_field {
    const char *key;   /* in JSON */
    const char *group; /* the object of the item that has the member; NULL: the item itself */
    size_t offset;
    uint32_t bit; /* in `valid`; 0: always present */
    enum facet_field_kind kind;
    const char *(*name)(uint32_t value); /* of FACET_FIELD_NAME */
    bool heads;                          /* the head of its group: without this member the group is absent */
};

struct facet_fields {
    const struct facet_field *list;
    size_t count;
    size_t valid; /* offset of the struct's `valid` bits; SIZE_MAX: it has none */
};

/* JSON to struct: sets texts (borrowed), numbers and bits. A value too large for its member is absent. */
void facet_fields_get(const struct facet_fields *fields, const json_t *item, void *ret_struct);

/* Struct to JSON. FACET_OUT_OF_RANGE: a number that JSON cannot hold. */
enum facet_status facet_fields_put(const struct facet_fields *fields, const void *from, json_t *item,
                                   struct facet_error *error);

#endif
