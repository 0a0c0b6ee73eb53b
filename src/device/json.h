/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the JSON form of device and provider records; the command and the daemon share it (docs/api.md).
 * Never: prints.
 */
#ifndef FACET_DEVICE_JSON_H
#define FACET_DEVICE_JSON_H

#include <jansson.h>

#include "device/table.h"

/* New references; NULL when out of memory. Fields that were not measured are left out. */
json_t *facet_device_json(const struct facet_device_record *device);
json_t *facet_provider_json(const struct facet_provider_record *provider);
json_t *facet_device_table_json(const struct facet_device_table *table);   /* {"devices":[...]} */
json_t *facet_provider_table_json(const struct facet_device_table *table); /* {"providers":[...]} */

#endif
