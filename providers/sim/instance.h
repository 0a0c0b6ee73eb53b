/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the life of an instance, for the device table. Never: does anything else. */
#ifndef FACET_SIM_INSTANCE_H
#define FACET_SIM_INSTANCE_H

#include "sim.h"

enum facet_status sim_open(struct facet_provider_instance **ret_instance, struct facet_error *error);
void sim_close(struct facet_provider_instance *instance);

#endif
