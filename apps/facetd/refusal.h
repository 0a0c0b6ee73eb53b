/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the form of a refusal: its HTTP status and its JSON (docs/api.md). Never: sends anything. */
#ifndef FACETD_REFUSAL_H
#define FACETD_REFUSAL_H

#include <jansson.h>

#include <facet/error.h>

unsigned refusal_http(enum facet_status status);

/* The text to be sent, which the caller frees; NULL when there was no memory for it. */
char *refusal_text(const struct facet_error *error);

#endif
