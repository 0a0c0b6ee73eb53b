/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the daemon does not know a device that this shell knows: it was started with other variables.
 *
 * Owns: comparing the variables on which devices depend. Never: changes one.
 */
#ifndef FACET_CLIENT_ENVIRONMENT_H
#define FACET_CLIENT_ENVIRONMENT_H

#include <stddef.h>

#include <jansson.h>

/* Advice after a device was refused, from the answer to GET /v1/health; `ret_advice` is kept when there is none. */
void client_environment_advise(const json_t *health, char *ret_advice, size_t size);

#endif
