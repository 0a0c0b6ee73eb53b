/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: metrics of vGPUs that programs make themselves (facet/vgpu.h). Never: asks the daemon. */
#ifndef FACET_METRICS_LIBRARY_H
#define FACET_METRICS_LIBRARY_H

#include <stdint.h>
#include <string.h>

#include <facet/error.h>

#include "command.h"

/*
 * Returns the text, which the caller frees, and the number of drivers in it. The text may be NULL when there are none.
 * Warns of drivers that publish impossible values.
 */
enum facet_status metrics_of_library(const struct command *self, char **ret_text, uint32_t *ret_drivers,
                                     struct facet_error *error);

#endif
