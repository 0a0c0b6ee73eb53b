/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual GPUs that a container was given, each by a configuration of its own.
 *
 * Owns: noticing that a process has several of them, although FACET_VGPU_DIR, which each configuration sets, names only
 * the last: a program in one of them alone would leave the others unused, and see another device than it asked for.
 * Never: chooses one.
 *
 * A configuration that facetd renders sets FACET_VGPU_DIR, and FACET_VGPU_DIR_<id> to the same folder.
 */
#ifndef FACET_LIMITER_GIVEN_H
#define FACET_LIMITER_GIVEN_H

#include <stdbool.h>
#include <stddef.h>

#include <facet/error.h>

/* The name of the variable of the vGPU `id`. */
void facet_given_variable(const char *id, char *ret_name, size_t size);

/* Whether an entry of the environment is such a variable. */
bool facet_given_is_variable(const char *entry);

/* `folders`: the value of FACET_VGPU_DIR. FACET_BAD_STATE: this process was given a vGPU that is not among them. */
enum facet_status facet_given_check(const char *folders, struct facet_error *error);

#endif
