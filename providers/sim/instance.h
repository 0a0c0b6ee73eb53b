/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: facet_device_ops.open and .close, for the device table. Never: declares the instance (sim.h). */
#ifndef FACET_SIM_INSTANCE_H
#define FACET_SIM_INSTANCE_H

#include "sim.h"

enum facet_status sim_open(struct facet_provider_instance **ret_instance, struct facet_error *error);
void sim_close(struct facet_provider_instance *instance);

#endif
