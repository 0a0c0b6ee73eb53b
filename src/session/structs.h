/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of structs that a provider fills, as far as the checks need it.
 *
 * Owns: their sizes, the places of their texts and enumerations, the check of a received one, and its copy to the
 * caller. Never: checks an amount or a bit: a number that is no enumeration may be anything.
 */
#ifndef FACET_SESSION_STRUCTS_H
#define FACET_SESSION_STRUCTS_H

#include <stdbool.h>
#include <stddef.h>

#include <facet/provider.h>

/* A text in a struct. */
struct facet_struct_text {
    const char *name;
    uint32_t offset, size;
};

/* A uint32_t of an enumeration without holes. The versions are negotiated down to the smaller, so a value of a later
 * minor has no business here. */
struct facet_struct_choice {
    const char *name;
    uint32_t offset, first, last;
};

struct facet_struct_type {
    uint32_t size;                     /* as this library was built */
    uint32_t min_size;                 /* as it was in the version that brought it: no provider has less */
    struct facet_struct_text texts[7]; /* ended by one without a name, as the next */
    struct facet_struct_choice choices[3];
};

/* X(struct): every struct that an operation gives out. */
#define FACET_STRUCT_TYPES(X)                                                                                          \
    X(facet_device_info)                                                                                               \
    X(facet_topology_node)                                                                                             \
    X(facet_topology_link)                                                                                             \
    X(facet_event)                                                                                                     \
    X(facet_partition_template)                                                                                        \
    X(facet_partition_placement)                                                                                       \
    X(facet_partition_info)                                                                                            \
    X(facet_worker_limit)                                                                                              \
    X(facet_device_metrics)                                                                                            \
    X(facet_process_metrics)                                                                                           \
    X(facet_link_metrics)                                                                                              \
    X(facet_container_item)                                                                                            \
    X(facet_memory_info)                                                                                               \
    X(facet_stream_state)                                                                                              \
    X(facet_launch_record)                                                                                             \
    X(facet_math)                                                                                                      \
    X(facet_math_support)

#define FACET_STRUCT_TYPE(type) extern const struct facet_struct_type type##_type;
FACET_STRUCT_TYPES(FACET_STRUCT_TYPE)
#undef FACET_STRUCT_TYPE

/*
 * Whether the struct at `bytes`, written by a provider into room for `room` bytes, can be believed: its size fits and
 * is no less than was asked for and the first version has, its texts are printable ASCII with an end, its enumerations
 * known. The name of the field that breaks this; NULL when all is well.
 */
const char *facet_struct_bad_field(const struct facet_struct_type *type, const void *bytes, uint32_t room);

/* Copies as much of a struct, found good, as its writer says it has. A text that the room cut is ended. */
void facet_struct_copy(const struct facet_struct_type *type, void *target, const void *source);

/* Whether `text` is printable ASCII with an end within `size` bytes. `lines`: line ends and tabs may be in it. */
bool facet_text_is_printable(const char *text, size_t size, bool lines);

/* Copies a text that may be anything: cut to fit, ended, and printable. */
void facet_text_copy(char *target, size_t size, const char *source, size_t source_size);

#endif
