/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the lists of texts and of enumerations in each struct. Never: misses a text of the ABI; a test compares the
 * lists with facet/provider.h.
 */
#include "session/structs.h"

#include <string.h>

#define SIZE(type) .size = sizeof(struct type), .min_size = sizeof(struct type)
#define TEXT(type, field)                                                                                              \
    {                                                                                                                  \
#field, offsetof(struct type, field), sizeof((struct type *)NULL)->field                                       \
    }

#define CHOICE(type, field, first, last)                                                                               \
    {                                                                                                                  \
#field, offsetof(struct type, field), first, last                                                              \
    }

const struct facet_struct_type facet_device_info_type = {
    .size = sizeof(struct facet_device_info),
    .min_size = offsetof(struct facet_device_info, capabilities), /* 1.0 */
    .texts =
        {
            TEXT(facet_device_info, uuid),
            TEXT(facet_device_info, name),
            TEXT(facet_device_info, vendor),
            TEXT(facet_device_info, driver_version),
            TEXT(facet_device_info, address),
            TEXT(facet_device_info, pci_address),
        },
    .choices = {CHOICE(facet_device_info, kind, FACET_DEVICE_OTHER, FACET_DEVICE_ACCELERATOR)},
};
const struct facet_struct_type facet_topology_node_type = {
    SIZE(facet_topology_node),
    .texts =
        {
            TEXT(facet_topology_node, uuid),
            TEXT(facet_topology_node, name),
            TEXT(facet_topology_node, pci_address),
        },
    .choices = {CHOICE(facet_topology_node, kind, FACET_NODE_DEVICE, FACET_NODE_SOCKET)},
};
const struct facet_struct_type facet_event_type = {
    SIZE(facet_event),
    .texts =
        {
            TEXT(facet_event, uuid),
            TEXT(facet_event, message),
        },
    .choices = {CHOICE(facet_event, kind, FACET_EVENT_HEALTH, FACET_EVENT_VENDOR_ERROR)},
};
const struct facet_struct_type facet_partition_template_type = {
    SIZE(facet_partition_template),
    .texts =
        {
            TEXT(facet_partition_template, id),
        },
};
const struct facet_struct_type facet_partition_info_type = {
    SIZE(facet_partition_info),
    .texts =
        {
            TEXT(facet_partition_info, uuid),
            TEXT(facet_partition_info, template_id),
            TEXT(facet_partition_info, address),
        },
};
const struct facet_struct_type facet_worker_limit_type = {
    SIZE(facet_worker_limit),
    .texts =
        {
            TEXT(facet_worker_limit, worker),
            TEXT(facet_worker_limit, address),
        },
};
const struct facet_struct_type facet_process_metrics_type = {
    SIZE(facet_process_metrics),
    .texts =
        {
            TEXT(facet_process_metrics, worker),
            TEXT(facet_process_metrics, partition_uuid),
        },
};
const struct facet_struct_type facet_container_item_type = {
    SIZE(facet_container_item),
    .texts =
        {
            TEXT(facet_container_item, host),
            TEXT(facet_container_item, guest),
        },
    .choices = {CHOICE(facet_container_item, kind, FACET_CONTAINER_DEVICE_NODE, FACET_CONTAINER_ENVIRONMENT)},
};
const struct facet_struct_type facet_launch_record_type = {
    SIZE(facet_launch_record),
    .texts =
        {
            TEXT(facet_launch_record, kernel),
        },
};

const struct facet_struct_type facet_math_support_type = {
    SIZE(facet_math_support),
    .texts =
        {
            TEXT(facet_math_support, library),
        },
};

const struct facet_struct_type facet_topology_link_type = {
    SIZE(facet_topology_link),
    .choices =
        {
            CHOICE(facet_topology_link, type, FACET_LINK_UNKNOWN, FACET_LINK_VENDOR),
            CHOICE(facet_topology_link, level, FACET_LEVEL_UNKNOWN, FACET_LEVEL_SYSTEM),
        },
};
const struct facet_struct_type facet_link_metrics_type = {
    SIZE(facet_link_metrics),
    .choices = {CHOICE(facet_link_metrics, type, FACET_LINK_UNKNOWN, FACET_LINK_VENDOR)},
};

/* Structs with neither texts nor enumerations. */
const struct facet_struct_type facet_partition_placement_type = {SIZE(facet_partition_placement)};
const struct facet_struct_type facet_device_metrics_type = {SIZE(facet_device_metrics)};
const struct facet_struct_type facet_memory_info_type = {SIZE(facet_memory_info)};
const struct facet_struct_type facet_stream_state_type = {
    .size = sizeof(struct facet_stream_state), .min_size = offsetof(struct facet_stream_state, begun) /* 1.1 */};
const struct facet_struct_type facet_math_type = {SIZE(facet_math)};

static bool is_printable(char c)
{
    return c >= 0x20 && c <= 0x7e;
}

/* The length of a text, terminated or not; SIZE_MAX when a character in it cannot be printed. */
static size_t printable_length(const char *text, size_t size, bool lines)
{
    size_t length = strnlen(text, size);

    for (size_t i = 0; i < length; i++)
        if (!is_printable(text[i]) && !(lines && (text[i] == '\n' || text[i] == '\t')))
            return SIZE_MAX;
    return length;
}

bool facet_text_is_printable(const char *text, size_t size, bool lines)
{
    return printable_length(text, size, lines) < size;
}

void facet_text_copy(char *target, size_t size, const char *source, size_t source_size)
{
    size_t i;

    for (i = 0; i + 1 < size && i < source_size && source[i]; i++)
        target[i] = is_printable(source[i]) ? source[i] : '?';
    target[i] = '\0';
}

/* How many bytes of a text's array are within a struct of `size` bytes. */
static uint32_t covered_bytes(const struct facet_struct_text *text, uint32_t size)
{
    if (size <= text->offset)
        return 0;
    return size - text->offset < text->size ? size - text->offset : text->size;
}

/* A text may lack its terminator only where the caller's `room` for the struct cuts it. */
static bool is_good_text(const struct facet_struct_text *text, const char *bytes, uint32_t size, uint32_t room)
{
    uint32_t covered = covered_bytes(text, size);
    size_t length = printable_length(bytes + text->offset, covered, false);

    if (covered == 0 || length < covered)
        return true;
    return length == covered && covered < text->size && size == room;
}

static bool is_known(const struct facet_struct_choice *choice, const char *bytes, uint32_t size)
{
    uint32_t value;

    if (choice->offset + sizeof value > size)
        return true;
    memcpy(&value, bytes + choice->offset, sizeof value);
    return value >= choice->first && value <= choice->last;
}

const char *facet_struct_bad_field(const struct facet_struct_type *type, const void *bytes, uint32_t room)
{
    uint32_t size;

    memcpy(&size, bytes, sizeof size);
    if (size < (room < type->min_size ? room : type->min_size) || size > room)
        return "size";
    for (const struct facet_struct_text *text = type->texts; text->name; text++)
        if (!is_good_text(text, bytes, size, room))
            return text->name;
    for (const struct facet_struct_choice *choice = type->choices; choice->name; choice++)
        if (!is_known(choice, bytes, size))
            return choice->name;
    return NULL;
}

void facet_struct_copy(const struct facet_struct_type *type, void *target, const void *source)
{
    uint32_t size;

    memcpy(&size, source, sizeof size);
    memcpy(target, source, size);
    for (const struct facet_struct_text *text = type->texts; text->name; text++) {
        uint32_t covered = covered_bytes(text, size);

        if (covered > 0 && covered < text->size)
            ((char *)target)[size - 1] = '\0';
    }
}
