/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the declaration of `facet provider check`, for the table of `facet provider`. Never: declares a helper. */
#ifndef FACET_COMMAND_PROVIDER_CHECK_H
#define FACET_COMMAND_PROVIDER_CHECK_H

#include "command.h"

extern const struct command command_provider_check;

#endif
