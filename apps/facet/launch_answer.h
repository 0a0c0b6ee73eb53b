/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the daemon's answer about a vGPU that a program gets.
 *
 * Owns: the lists of accepted variables and folders; without them, an answer could set LD_PRELOAD.
 * Never: sets a variable.
 */
#ifndef FACET_LAUNCH_ANSWER_H
#define FACET_LAUNCH_ANSWER_H

#include <jansson.h>

#include <facet/error.h>

struct command;

/* Called before a file of the segment is opened. FACET_PERMISSION: other users can change its folder. */
enum facet_status launch_answer_check_segment(const char *segment, struct facet_error *error);

/*
 * Adds to `environment` the variables of the answer that Facet defines: NAME_VISIBLE_DEVICES with a list of devices,
 * POCL_AFFINITY, and FACET_SIM_PROFILE and FACET_SIM_STATE with paths that others cannot change. Warns of each that is
 * left out.
 */
enum facet_status launch_answer_add_environment(const struct command *self, const json_t *vgpu, json_t *environment,
                                                struct facet_error *error);

#endif
