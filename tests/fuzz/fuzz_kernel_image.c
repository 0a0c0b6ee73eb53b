/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing facet_image_parse() with images of every format: an accepted image keeps the bounds on which launches
 * rely. */
#include <facet/kernel.h>

#include "fuzz.h"

static void check_kernel(const struct facet_host_kernel *kernel)
{
    uint32_t end = 0;

    FUZZ_ASSERT(kernel->name[0] && !kernel->run);
    for (uint32_t i = 0; i < 3; i++)
        FUZZ_ASSERT(kernel->required_group_size[i] <= FACET_HOST_GROUP_MOST);
    for (uint32_t i = 0; i < kernel->argument_count; i++) {
        const struct facet_host_argument *argument = &kernel->arguments[i];

        FUZZ_ASSERT(argument->name && argument->type && strlen(argument->name) < 4096);
        FUZZ_ASSERT(argument->kind >= FACET_ARGUMENT_VALUE && argument->kind <= FACET_ARGUMENT_SAMPLER);
        FUZZ_ASSERT(argument->bytes > 0 && argument->offset >= end);
        FUZZ_ASSERT(argument->bytes <= kernel->argument_bytes);
        FUZZ_ASSERT(argument->offset <= kernel->argument_bytes - argument->bytes);
        end = argument->offset + argument->bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_error error = {0};
    struct facet_image *image = NULL;
    const struct facet_host_kernel *kernel;
    char *text = fuzz_text(data, size);
    char *exact = malloc(size ? size : 1);
    size_t kept;

    FUZZ_ASSERT(exact);
    memcpy(exact, text, size);
    free(text);
    enum facet_status status = facet_image_parse(exact, size, &image, &error);
    if (status == FACET_OK) {
        FUZZ_ASSERT(facet_image_bytes(image, &kept) && kept == size);
        FUZZ_ASSERT(facet_image_target(image)[0]);
        for (uint32_t i = 0; (kernel = facet_image_kernel(image, i)); i++) {
            check_kernel(kernel);
            FUZZ_ASSERT(facet_image_find(image, kernel->name) == kernel);
        }
        facet_image_destroy(image);
    } else {
        FUZZ_ASSERT(status == FACET_CORRUPT && error.status == status && !image);
        FUZZ_ASSERT(strcmp(error.argument, "image") == 0);
    }
    free(exact);
    return 0;
}
