/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: conversion of a rule to and from JSON, which people may edit. Never: opens a file.
 */
#ifndef FACET_PASSTHROUGH_PERSIST_RULE_H
#define FACET_PASSTHROUGH_PERSIST_RULE_H

#include <facet/passthrough_rules.h>

#define RULE_BYTES_MAX (256u << 10)

/* NULL: no memory. */
char *rule_text(const struct facet_passthrough_rule *rule);

/* FACET_CORRUPT: the error's message names the damage. The caller frees ret_rule->functions. */
enum facet_status rule_parse(const char *bytes, size_t size, struct facet_passthrough_rule *ret_rule,
                             struct facet_error *error);

#endif
