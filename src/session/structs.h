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

/* A uint32_t with an enumeration's value, from first to last. Both sides use the smaller of their minor versions, so a
 * value that a later version added is an error. */
struct facet_struct_choice {
    const char *name;
    uint32_t offset, first, last;
};

struct facet_struct_type {
    uint32_t size;                         /* as this library was built */
    uint32_t min_size;                     /* as in the version that introduced it: no provider has less */
    struct facet_struct_text texts[7];     /* the last has no name */
    struct facet_struct_choice choices[3]; /* the last has no name */
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
 * Checks the struct at `bytes`, which a provider wrote into room for `room` bytes. Its size must be at most `room`, and
 * at least the smaller of `room` and min_size. Its texts must be printable ASCII with an end, and its enumerations
 * known values. Returns the name of the first field that breaks this, or NULL.
 */
const char *facet_struct_bad_field(const struct facet_struct_type *type, const void *bytes, uint32_t room);

/* Copies a checked struct, as many bytes as its `size` says. A text that the room cut gets a terminator. */
void facet_struct_copy(const struct facet_struct_type *type, void *target, const void *source);

/* Whether `text` is printable ASCII with a terminator within `size` bytes. `lines`: newlines and tabs are allowed. */
bool facet_text_is_printable(const char *text, size_t size, bool lines);

/* Copies a text from an untrusted source: cut to fit, terminated, with '?' for what cannot be printed. */
void facet_text_copy(char *target, size_t size, const char *source, size_t source_size);

#endif
