/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the declaration of `facet kernel run`, for the table of `facet kernel`. Never: declares a helper. */
#ifndef FACET_KERNEL_RUN_H
#define FACET_KERNEL_RUN_H

#include "command.h"

extern const struct command command_kernel_run;

#endif
