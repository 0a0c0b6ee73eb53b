/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device in full, as JSON: the members of the device list, and members that only an open provider can give
 * (docs/api.md, DEVICE in full).
 *
 * Owns: capabilities, properties, templates with their places, partitions, workers with limits, links.
 * Never: prints; fails because one of these members cannot be read. That member is then absent, and `trouble` says why.
 */
#ifndef FACET_DEVICE_DESCRIBE_H
#define FACET_DEVICE_DESCRIBE_H

#include <jansson.h>

#include "device/table.h"

/*
 * `index` is the device's place in the provider's list now. Returns a new reference; NULL when out of memory. Each
 * member is a call of the provider: when the provider is lost on the way, the members not yet read are absent.
 */
json_t *facet_device_describe(const struct facet_device_record *device, const struct facet_provider *provider,
                              struct facet_provider_instance *instance, uint32_t index);

const char *facet_link_type_name(uint32_t type);

#endif
