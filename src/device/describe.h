/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device in full, as JSON: the members of the list, and those that only its open provider knows (docs/api.md,
 * DEVICE in full).
 *
 * Owns: capabilities, properties, templates with their places, partitions, workers with limits, links.
 * Never: prints; fails because one of these cannot be read: that member is then absent, and `trouble` says why.
 */
#ifndef FACET_DEVICE_DESCRIBE_H
#define FACET_DEVICE_DESCRIBE_H

#include <jansson.h>

#include "device/table.h"

/*
 * `index` is the device's place in the provider now. A new reference; NULL when out of memory. Asks a handful of
 * questions; when the provider is lost on the way the rest is absent.
 */
json_t *facet_device_describe(const struct facet_device_record *device, const struct facet_provider *provider,
                              struct facet_provider_instance *instance, uint32_t index);

const char *facet_link_type_name(uint32_t type);

#endif
