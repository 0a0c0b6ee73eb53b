/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading an image's description (schemas/kernel_image.schema.json). Every member in use must be present, of its
 * type and within bounds, so that later code need not check it again. Unknown members, of a newer Facet, are ignored.
 * Never: allocates memory by a number of the description.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "kernel/backend.h"
#include "kernel/image.h"

static enum facet_status refuse_description(struct facet_error *error, const char *where, const char *member,
                                            const char *expected)
{
    return facet_error_argument(error, FACET_CORRUPT, "image", "image's description: %.64s: %s: expected %s", where,
                                member, expected);
}

/* Reads a text without control characters, which may be "" only when `empty`. JSON's texts are UTF-8. */
static enum facet_status read_text(const json_t *object, const char *where, const char *member, bool empty,
                                   const char **ret_text, struct facet_error *error)
{
    const json_t *value = json_object_get(object, member);
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);

    if (!text || length > FACET_IMAGE_TEXT_MAX || strlen(text) != length || (!empty && !length))
        return refuse_description(error, where, member, "a text");
    for (const char *at = text; *at; at++)
        if (facet_text_is_control(at) || facet_text_is_unseen(at))
            return refuse_description(error, where, member, "a text without control or format characters");
    *ret_text = text;
    return FACET_OK;
}

/* Reads a number up to `max`. An `optional` member that is missing is 0. */
static enum facet_status read_number(const json_t *object, const char *where, const char *member, bool optional,
                                     uint32_t max, uint32_t *ret_number, struct facet_error *error)
{
    const json_t *value = json_object_get(object, member);
    char expected[48];

    if (!value && optional) {
        *ret_number = 0;
        return FACET_OK;
    }
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || number > max) {
        snprintf(expected, sizeof expected, "a whole number from 0 to %" PRIu32, max);
        return refuse_description(error, where, member, expected);
    }
    *ret_number = (uint32_t)number;
    return FACET_OK;
}

/* Finds a word in a list that ends with NULL. */
static bool find_word(const char *word, const char *const *words, uint32_t *ret_index)
{
    for (uint32_t i = 0; word && words[i]; i++) {
        if (strcmp(word, words[i]) != 0)
            continue;
        *ret_index = i;
        return true;
    }
    return false;
}

/* Reads a list of words as bits, in the order of `words`. Unknown words are ignored. */
static enum facet_status read_bits(const json_t *object, const char *where, const char *member,
                                   const char *const *words, uint32_t *ret_bits, struct facet_error *error)
{
    const json_t *list = json_object_get(object, member), *word;
    uint32_t bits = 0, index;
    size_t place;

    if (list && !json_is_array(list))
        return refuse_description(error, where, member, "a list of words");
    json_array_foreach (list, place, word) {
        if (!json_is_string(word))
            return refuse_description(error, where, member, "a list of words");
        if (find_word(json_string_value(word), words, &index))
            bits |= 1u << index;
    }
    *ret_bits = bits;
    return FACET_OK;
}

static enum facet_status read_kind(const json_t *object, const char *where, uint32_t *ret_kind,
                                   struct facet_error *error)
{
    static const char *const kinds[] = {"value", "global", "local", "image", "sampler", NULL};
    uint32_t index;

    if (!find_word(json_string_value(json_object_get(object, "kind")), kinds, &index))
        return refuse_description(error, where, "kind", "value, global, local, image or sampler");
    *ret_kind = FACET_ARGUMENT_VALUE + index;
    return FACET_OK;
}

/* The width of a local pointer or a sampler depends on the target; an address has 8 bytes on all targets. */
static bool width_fits(const struct facet_host_argument *argument)
{
    switch (argument->kind) {
    case FACET_ARGUMENT_GLOBAL:
    case FACET_ARGUMENT_IMAGE:
        return argument->bytes == 8;
    case FACET_ARGUMENT_LOCAL:
    case FACET_ARGUMENT_SAMPLER:
        return argument->bytes == 4 || argument->bytes == 8;
    default:
        return argument->bytes > 0;
    }
}

/* *end is the end of the previous argument, then of this one. */
static enum facet_status read_argument(const json_t *object, const char *where, uint32_t block, uint32_t *end,
                                       struct facet_host_argument *argument, struct facet_error *error)
{
    static const char *const accesses[] = {"read", "write", NULL};
    enum facet_status status = read_text(object, where, "name", true, &argument->name, error);

    if (status == FACET_OK)
        status = read_text(object, where, "type", true, &argument->type, error);
    if (status == FACET_OK)
        status = read_kind(object, where, &argument->kind, error);
    if (status == FACET_OK)
        status = read_number(object, where, "offset", false, block, &argument->offset, error);
    if (status == FACET_OK)
        status = read_number(object, where, "bytes", false, block, &argument->bytes, error);
    if (status == FACET_OK)
        status = read_bits(object, where, "access", accesses, &argument->access, error);
    if (status != FACET_OK)
        return status;
    if (!width_fits(argument))
        return refuse_description(error, where, "bytes",
                                  "8 for memory and images, 4 or 8 for local memory and samplers, or a value's size");
    if (argument->offset < *end || argument->offset + argument->bytes > block)
        return refuse_description(error, where, "offset", "arguments one after the other, within argument_bytes");
    bool memory = argument->kind == FACET_ARGUMENT_GLOBAL || argument->kind == FACET_ARGUMENT_IMAGE;
    if (memory && !argument->access) /* not known */
        argument->access = FACET_ARGUMENT_READS | FACET_ARGUMENT_WRITES;
    *end = argument->offset + argument->bytes;
    return FACET_OK;
}

static enum facet_status read_arguments(const json_t *list, struct facet_host_kernel *kernel,
                                        struct facet_host_argument *arguments, struct facet_error *error)
{
    const json_t *object;
    uint32_t end = 0;
    size_t index;

    json_array_foreach (list, index, object) {
        enum facet_status status =
            read_argument(object, kernel->name, kernel->argument_bytes, &end, &arguments[index], error);
        if (status != FACET_OK)
            return status;
    }
    kernel->arguments = arguments;
    kernel->argument_count = (uint32_t)json_array_size(list);
    return FACET_OK;
}

static enum facet_status read_group_size(const json_t *object, struct facet_host_kernel *kernel,
                                         struct facet_error *error)
{
    const json_t *list = json_object_get(object, "required_group_size");
    uint32_t given = 0;

    if (list && json_array_size(list) != 3)
        return refuse_description(error, kernel->name, "required_group_size", "three numbers");
    for (size_t i = 0; list && i < 3; i++) {
        const json_t *value = json_array_get(list, i);
        json_int_t number = json_integer_value(value);

        if (!json_is_integer(value) || number < 0 || number > FACET_HOST_GROUP_MOST)
            return refuse_description(error, kernel->name, "required_group_size", "three numbers up to 4096");
        kernel->required_group_size[i] = (uint32_t)number;
        given += number != 0;
    }
    return given % 3 == 0 ? FACET_OK
                          : refuse_description(error, kernel->name, "required_group_size",
                                               "three numbers that are all 0 or all above 0");
}

static enum facet_status read_sizes(const json_t *object, struct facet_host_kernel *kernel, struct facet_error *error)
{
    static const char *const flags[] = {"barriers", "vectorized", "rows", NULL};
    const char *where = kernel->name;
    enum facet_status status =
        read_number(object, where, "argument_bytes", false, FACET_IMAGE_BLOCK_MAX, &kernel->argument_bytes, error);

    if (status == FACET_OK)
        status = read_number(object, where, "local_bytes", true, FACET_IMAGE_LOCAL_MAX, &kernel->local_bytes, error);
    if (status == FACET_OK)
        status =
            read_number(object, where, "scratch_fixed_bytes", true, UINT32_MAX, &kernel->scratch_fixed_bytes, error);
    if (status == FACET_OK)
        status = read_number(object, where, "scratch_item_bytes", true, UINT32_MAX, &kernel->scratch_item_bytes, error);
    if (status == FACET_OK)
        status = read_bits(object, where, "flags", flags, &kernel->flags, error);
    return status == FACET_OK ? read_group_size(object, kernel, error) : status;
}

static enum facet_status read_kernel(const struct facet_image *image, const json_t *object, uint32_t index,
                                     struct facet_host_argument *arguments, struct facet_error *error)
{
    struct facet_host_kernel *kernel = &image->kernels[index];
    enum facet_status status = read_text(object, "a kernel", "name", false, &kernel->name, error);

    for (uint32_t i = 0; status == FACET_OK && i < index; i++)
        if (strcmp(image->kernels[i].name, kernel->name) == 0)
            status = refuse_description(error, kernel->name, "name", "a name that no other kernel has");
    if (status == FACET_OK)
        status = read_sizes(object, kernel, error);
    return status == FACET_OK ? read_arguments(json_object_get(object, "arguments"), kernel, arguments, error) : status;
}

/* Counts the arguments of all kernels, and checks that their lists are lists. */
static enum facet_status count_arguments(const json_t *kernels, size_t *ret_count, struct facet_error *error)
{
    const json_t *object;
    size_t index, count = 0;

    json_array_foreach (kernels, index, object) {
        const json_t *arguments = json_object_get(object, "arguments");
        if (!json_is_array(arguments) || json_array_size(arguments) > FACET_IMAGE_ARGUMENTS_MAX)
            return refuse_description(error, "a kernel", "arguments", "a list of up to 1024 arguments");
        count += json_array_size(arguments);
    }
    *ret_count = count;
    return FACET_OK;
}

enum facet_status facet_image_describe(struct facet_image *image, struct facet_error *error)
{
    const json_t *kernels = json_object_get(image->description, "kernels"), *object;
    size_t index, arguments = 0, used = 0;

    if (!json_is_array(kernels) || json_array_size(kernels) > FACET_IMAGE_KERNELS_MAX)
        return refuse_description(error, "the image", "kernels", "a list of up to 4096 kernels");
    enum facet_status status = count_arguments(kernels, &arguments, error);
    if (status != FACET_OK)
        return status;
    image->kernels = calloc(json_array_size(kernels) + 1, sizeof *image->kernels);
    image->arguments = calloc(arguments + 1, sizeof *image->arguments);
    if (!image->kernels || !image->arguments)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for an image's description");
    json_array_foreach (kernels, index, object) {
        status = read_kernel(image, object, (uint32_t)index, image->arguments + used, error);
        if (status != FACET_OK)
            return status;
        used += image->kernels[index].argument_count;
    }
    image->kernel_count = (uint32_t)json_array_size(kernels);
    return FACET_OK;
}
