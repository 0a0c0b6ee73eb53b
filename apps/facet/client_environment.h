/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the daemon does not know a device that this shell knows: it was started with other variables.
 *
 * Owns: comparing the variables on which devices depend. Never: changes one.
 */
#ifndef FACET_CLIENT_ENVIRONMENT_H
#define FACET_CLIENT_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* Takes a variable, FACET_KEEP_ENV, the variable again. */
#define CLIENT_LEFT_OUT "drivers are opened without this shell's %s; %s=%s keeps it"

/*
 * The first variable for finding drivers that is set here and left out of a private daemon's environment; NULL: none.
 */
const char *client_environment_first_left_out(void);

/*
 * The variable by which this provider's driver is found: its library is in a folder of LD_LIBRARY_PATH, or OpenCL's
 * loader finds others by it. NULL: none.
 */
const char *client_environment_left_out(const char *provider);

/*
 * Whether a variable that decides which devices there are has another value for the daemon, from the answer to
 * GET /v1/health; then `ret_advice` names all such variables. It is kept when there is none.
 */
bool client_environment_differs(const json_t *health, char *ret_advice, size_t size);

/* Advice after a device was refused, from the answer to GET /v1/health; `ret_advice` is kept when there is none. */
void client_environment_advise(const json_t *health, char *ret_advice, size_t size);

#endif
