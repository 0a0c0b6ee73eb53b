/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the list of texts in each struct. Never: falls behind the ABI: a test compares it with what is printed there.
 */
#include "session/structs.h"

#include <string.h>

#define SIZE(type) .size = sizeof(struct type)
#define TEXT(type, field)                                                                                              \
    {                                                                                                                  \
#field, offsetof(struct type, field), sizeof((struct type *)NULL)->field                                       \
    }

const struct facet_struct_type facet_device_info_type = {
    SIZE(facet_device_info),
    {
        TEXT(facet_device_info, uuid),
        TEXT(facet_device_info, name),
        TEXT(facet_device_info, vendor),
        TEXT(facet_device_info, driver_version),
        TEXT(facet_device_info, address),
        TEXT(facet_device_info, pci_address),
    },
};
const struct facet_struct_type facet_topology_node_type = {
    SIZE(facet_topology_node),
    {
        TEXT(facet_topology_node, uuid),
        TEXT(facet_topology_node, name),
        TEXT(facet_topology_node, pci_address),
    },
};
const struct facet_struct_type facet_event_type = {
    SIZE(facet_event),
    {
        TEXT(facet_event, uuid),
        TEXT(facet_event, message),
    },
};
const struct facet_struct_type facet_partition_template_type = {
    SIZE(facet_partition_template),
    {
        TEXT(facet_partition_template, id),
    },
};
const struct facet_struct_type facet_partition_info_type = {
    SIZE(facet_partition_info),
    {
        TEXT(facet_partition_info, uuid),
        TEXT(facet_partition_info, template_id),
        TEXT(facet_partition_info, address),
    },
};
const struct facet_struct_type facet_worker_limit_type = {
    SIZE(facet_worker_limit),
    {
        TEXT(facet_worker_limit, worker),
        TEXT(facet_worker_limit, address),
    },
};
const struct facet_struct_type facet_process_metrics_type = {
    SIZE(facet_process_metrics),
    {
        TEXT(facet_process_metrics, worker),
        TEXT(facet_process_metrics, partition_uuid),
    },
};
const struct facet_struct_type facet_container_item_type = {
    SIZE(facet_container_item),
    {
        TEXT(facet_container_item, host),
        TEXT(facet_container_item, guest),
    },
};

/* Numbers only. */
const struct facet_struct_type facet_topology_link_type = {SIZE(facet_topology_link)};
const struct facet_struct_type facet_partition_placement_type = {SIZE(facet_partition_placement)};
const struct facet_struct_type facet_device_metrics_type = {SIZE(facet_device_metrics)};
const struct facet_struct_type facet_link_metrics_type = {SIZE(facet_link_metrics)};
const struct facet_struct_type facet_memory_info_type = {SIZE(facet_memory_info)};
const struct facet_struct_type facet_stream_state_type = {SIZE(facet_stream_state)};

static bool is_printable(char c)
{
    return c >= 0x20 && c <= 0x7e;
}

bool facet_text_is_printable(const char *text, size_t size, bool lines)
{
    size_t length = strnlen(text, size);

    for (size_t i = 0; i < length; i++)
        if (!is_printable(text[i]) && !(lines && (text[i] == '\n' || text[i] == '\t')))
            return false;
    return length < size;
}

void facet_text_copy(char *target, size_t size, const char *source, size_t source_size)
{
    size_t i;

    for (i = 0; i + 1 < size && i < source_size && source[i]; i++)
        target[i] = is_printable(source[i]) ? source[i] : '?';
    target[i] = '\0';
}

const char *facet_struct_bad_field(const struct facet_struct_type *type, const void *bytes, uint32_t room)
{
    uint32_t size;

    memcpy(&size, bytes, sizeof size);
    if (size < sizeof size || size > room)
        return "size";
    for (const struct facet_struct_text *text = type->texts; text->name; text++)
        if (text->offset + text->size <= size &&
            !facet_text_is_printable((const char *)bytes + text->offset, text->size, false))
            return text->name;
    return NULL;
}
