/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: making an image's description (schemas/kernel_image.schema.json). Never: puts it into the image. */
#include <jansson.h>
#include <stdlib.h>

#include "kernel/compile/compile.h"

static json_t *words_of_bits(uint32_t bits, const char *const *names)
{
    json_t *list = json_array();

    for (uint32_t i = 0; names[i]; i++)
        if (bits >> i & 1)
            json_array_append_new(list, json_string(names[i]));
    return list;
}

static json_t *describe_argument(const struct facet_host_argument *argument)
{
    static const char *const kinds[] = {"", "value", "global", "local", "image", "sampler"};
    static const char *const accesses[] = {"read", "write", NULL};

    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:o}", "name", argument->name, "type", argument->type, "kind",
                     kinds[argument->kind], "offset", (json_int_t)argument->offset, "bytes",
                     (json_int_t)argument->bytes, "access", words_of_bits(argument->access, accesses));
}

static json_t *describe_kernel(const struct facet_compile_kernel *kernel)
{
    static const char *const flags[] = {"barriers", "vectorized", "rows", NULL};
    const uint32_t *group = kernel->required_group_size;
    json_t *arguments = json_array();

    for (uint32_t i = 0; i < kernel->argument_count; i++)
        json_array_append_new(arguments, describe_argument(&kernel->arguments[i]));
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:[I,I,I], s:o, s:o}", "name", kernel->name, "local_bytes",
                     (json_int_t)kernel->local_bytes, "scratch_fixed_bytes", (json_int_t)kernel->scratch_fixed_bytes,
                     "scratch_item_bytes", (json_int_t)kernel->scratch_item_bytes, "argument_bytes",
                     (json_int_t)kernel->argument_bytes, "required_group_size", (json_int_t)group[0],
                     (json_int_t)group[1], (json_int_t)group[2], "flags", words_of_bits(kernel->flags, flags),
                     "arguments", arguments);
}

enum facet_status facet_compile_describe(struct facet_compilation *compilation, struct facet_error *error)
{
    json_t *kernels = json_array(), *image;

    for (uint32_t i = 0; i < compilation->kernel_count; i++)
        json_array_append_new(kernels, describe_kernel(&compilation->kernels[i]));
    image = json_pack("{s:s, s:s, s:b, s:o}", "target", compilation->target, "features", compilation->features, "check",
                      (int)compilation->request->check, "kernels", kernels);
    compilation->result->description = image ? json_dumps(image, JSON_COMPACT) : NULL;
    json_decref(image);
    return compilation->result->description
               ? FACET_OK
               : facet_error_set(error, FACET_INTERNAL, "the image's names are not UTF-8, or there is no memory");
}
