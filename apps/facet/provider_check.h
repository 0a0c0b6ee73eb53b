/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: nothing; declares the verb `provider check`. Never: grows. */
#ifndef FACET_COMMAND_PROVIDER_CHECK_H
#define FACET_COMMAND_PROVIDER_CHECK_H

#include "command.h"

extern const struct command command_provider_check;

#endif
