/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the form of a refusal: its HTTP status and its JSON (docs/api.md). Never: sends anything. */
#ifndef FACETD_REFUSAL_H
#define FACETD_REFUSAL_H

#include <jansson.h>

#include <facet/error.h>

unsigned refusal_http(enum facet_status status);

/* The JSON to be sent, which the caller frees; NULL: no memory. */
char *refusal_text(const struct facet_error *error);

#endif
