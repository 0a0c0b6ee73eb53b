/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the output of `facet vgpu list` and `facet vgpu show`. Never: asks the daemon. */
#ifndef FACET_VGPU_VIEW_H
#define FACET_VGPU_VIEW_H

#include <jansson.h>

#include "command.h"

/* Print the table of an answer to GET /v1/vgpus, and the card of one vGPU. Both return the exit status. */
int vgpu_print_list(const struct command *self, const json_t *answer);
int vgpu_print_card(const struct command *self, const json_t *vgpu);

#endif
