/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the name of `facet kernel run`. Never: does anything else. */
#ifndef FACET_KERNEL_RUN_H
#define FACET_KERNEL_RUN_H

#include "command.h"

extern const struct command command_kernel_run;

#endif
