/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the look-ups over the status table. Never: keeps state. */
#include <facet/status.h>

#include <stddef.h>
#include <string.h>

struct status_row {
    enum facet_status status;
    const char *name, *text, *advice;
};

static const struct status_row rows[] = {
#define ROW(NAME, name, value, text, todo) {FACET_##NAME, #name, text, todo},
    FACET_STATUS_TABLE(ROW)
#undef ROW
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static const struct status_row *row_of(enum facet_status status)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (rows[i].status == status)
            return &rows[i];
    return row_of(FACET_INTERNAL);
}

const char *facet_status_name(enum facet_status status)
{
    return row_of(status)->name;
}

const char *facet_status_text(enum facet_status status)
{
    return row_of(status)->text;
}

const char *facet_status_advice(enum facet_status status)
{
    return row_of(status)->advice;
}

enum facet_status facet_status_from_name(const char *name)
{
    for (size_t i = 0; name && i < ROW_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].status;
    return FACET_INTERNAL;
}
