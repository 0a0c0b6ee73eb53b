/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: metrics of vGPUs that programs make themselves (facet/vgpu.h). Never: asks the daemon. */
#ifndef FACET_METRICS_LIBRARY_H
#define FACET_METRICS_LIBRARY_H

#include <stdint.h>
#include <string.h>

#include <facet/error.h>

#include "command.h"

/*
 * The text, which the caller frees and which may be NULL when there is nothing; and the number of drivers in it. Warns
 * of drivers that publish impossible values.
 */
enum facet_status metrics_of_library(const struct command *self, char **ret_text, uint32_t *ret_drivers,
                                     struct facet_error *error);

#endif
