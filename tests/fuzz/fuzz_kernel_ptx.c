/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing the description at the end of PTX. The input follows "// facet: ", so that all of it is parsed. */
#include <facet/kernel.h>

#include "fuzz.h"

static const char head[] = ".version 8.0\n// facet: ";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_error error = {0};
    struct facet_image *image = NULL;
    char *text = malloc(sizeof head - 1 + size);

    FUZZ_ASSERT(text);
    memcpy(text, head, sizeof head - 1);
    memcpy(text + sizeof head - 1, data, size);
    enum facet_status status = facet_image_parse(text, sizeof head - 1 + size, &image, &error);
    if (status == FACET_OK) {
        for (uint32_t i = 0; facet_image_kernel(image, i); i++)
            FUZZ_ASSERT(i < 4096);
        FUZZ_ASSERT(facet_image_target(image)[0]);
        facet_image_destroy(image);
    } else {
        FUZZ_ASSERT(status == FACET_CORRUPT && !image && error.message[0]);
    }
    free(text);
    return 0;
}
