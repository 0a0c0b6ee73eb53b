/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the public interface of the device table (facet/device.h). Never: adds to the table's records. */
#include <facet/device.h>

#include "device/table.h"

/* `struct facet_device_list` is the public name of `struct facet_device_table`: the same object. */
static const struct facet_device_table *table_of(const struct facet_device_list *list)
{
    return (const struct facet_device_table *)list;
}

enum facet_status facet_device_list_open(const char *providers, struct facet_device_list **ret_list,
                                         struct facet_error *error)
{
    struct facet_device_table *table;
    enum facet_status status = facet_device_table_open(providers, &table, error);

    if (status == FACET_OK)
        *ret_list = (struct facet_device_list *)table;
    return status;
}

void facet_device_list_close(struct facet_device_list *list)
{
    facet_device_table_close((struct facet_device_table *)list);
}

uint32_t facet_device_list_count(const struct facet_device_list *list)
{
    return facet_device_table_count(table_of(list));
}

const char *facet_device_list_id(const struct facet_device_list *list, uint32_t index)
{
    const struct facet_device_record *device = facet_device_table_at(table_of(list), index);

    return device ? device->id : NULL;
}

const struct facet_device_info *facet_device_list_info(const struct facet_device_list *list, uint32_t index)
{
    const struct facet_device_record *device = facet_device_table_at(table_of(list), index);

    return device ? &device->info : NULL;
}

const char *facet_device_list_processors(const struct facet_device_list *list, uint32_t index)
{
    const struct facet_device_record *device = facet_device_table_at(table_of(list), index);

    return device ? device->cpuset : NULL;
}

enum facet_health facet_device_list_health(const struct facet_device_list *list, uint32_t index)
{
    const struct facet_device_record *device = facet_device_table_at(table_of(list), index);

    return device ? (enum facet_health)device->health : FACET_HEALTH_UNKNOWN;
}

enum facet_status facet_device_list_find(const struct facet_device_list *list, const char *text, uint32_t *ret_index,
                                         struct facet_error *error)
{
    const struct facet_device_table *table = table_of(list);
    const struct facet_device_record *device;
    enum facet_status status = facet_device_table_find(table, text, &device, error);

    if (status == FACET_OK)
        *ret_index = (uint32_t)(device - facet_device_table_at(table, 0));
    return status;
}

const struct facet_error *facet_device_list_refusal(const struct facet_device_list *list, uint32_t index,
                                                    const char **ret_path)
{
    const struct facet_device_table *table = table_of(list);

    for (uint32_t i = 0; i < facet_provider_count(table); i++) {
        const struct facet_provider_record *provider = facet_provider_at(table, i);

        if (provider->state != FACET_PROVIDER_REFUSED || index-- > 0)
            continue;
        if (ret_path)
            *ret_path = provider->path;
        return &provider->reason;
    }
    return NULL;
}
