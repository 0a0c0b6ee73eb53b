/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains why the daemon does not find a device: it was started with other variables than this shell has.
 *
 * Owns: comparing the variables on which devices depend. Never: changes one.
 */
#ifndef FACET_CLIENT_ENVIRONMENT_H
#define FACET_CLIENT_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* A format. Its arguments are a variable's name, "FACET_KEEP_ENV", and the variable's name again. */
#define CLIENT_LEFT_OUT "drivers are opened without this shell's %s; %s=%s keeps it"

/*
 * The first variable by which drivers are found that is set here, but left out of a private daemon's environment.
 * NULL: there is none.
 */
const char *client_environment_first_left_out(void);

/*
 * The variable that is left out, and by which this provider's driver would be found: LD_LIBRARY_PATH when the driver's
 * library is in one of its folders, or a variable of OpenCL's loader. NULL: none.
 */
const char *client_environment_left_out(const char *provider);

/*
 * Whether the daemon has other values of variables by which devices are found, according to `health`, its answer to
 * GET /v1/health. If so, `ret_advice` names these variables; else it stays as it is.
 */
bool client_environment_differs(const json_t *health, char *ret_advice, size_t size);

/* Advice after a device was not found, from the answer to GET /v1/health; else `ret_advice` stays as it is. */
void client_environment_advise(const json_t *health, char *ret_advice, size_t size);

#endif
