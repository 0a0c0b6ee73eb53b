/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing sim_image_parse(): an accepted image keeps the model's bounds, and a refusal names the fault. */
#include "kernel.h"

#include "fuzz.h"

static void check_accepted(const struct sim_image *image)
{
    FUZZ_ASSERT(image->count > 0);
    for (size_t i = 0; i < image->count; i++) {
        const struct sim_kernel *kernel = &image->kernels[i];

        FUZZ_ASSERT(kernel->name[0] && memchr(kernel->name, '\0', sizeof kernel->name));
        FUZZ_ASSERT(kernel->cycles_per_group <= SIM_COST_MAX && kernel->bytes_per_group <= SIM_COST_MAX);
        FUZZ_ASSERT(kernel->duration_ns <= SIM_COST_MAX && kernel->tensor_milli <= 1000);
        FUZZ_ASSERT(!kernel->duration_ns || (!kernel->cycles_per_group && !kernel->bytes_per_group));
        FUZZ_ASSERT(kernel->effect <= SIM_EFFECT_COPY);
        FUZZ_ASSERT(sim_image_find(image, kernel->name) == kernel);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_error error = {0};
    struct sim_image image = {0};
    char *text = fuzz_text(data, size);
    enum facet_status status = sim_image_parse(text, size, &image, &error);

    if (status == FACET_OK) {
        check_accepted(&image);
        sim_image_clear(&image);
    } else {
        FUZZ_ASSERT(status == FACET_CORRUPT && error.status == status && !image.kernels);
        FUZZ_ASSERT(strncmp(error.message, "image", 5) == 0 && !strchr(error.message, '\n'));
    }
    free(text);
    return 0;
}
