/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing the reader of resource.txt, and sizes with units. */
#include <facet/workload.h>

#include "fuzz.h"

static uint32_t type_of(void *context, const char *slot)
{
    return strcmp(slot, "mem") == 0 ? FACET_SLOT_BYTES : strcmp(slot, "cpu") == 0 ? FACET_SLOT_COUNT : UINT32_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *back = NULL, *second = NULL, shown[FACET_AMOUNT_SIZE];
    struct facet_resources *resources = NULL, *again = NULL;
    struct facet_error error = {0};
    int64_t bytes, same;

    enum facet_status status = facet_resources_parse_legacy(text, size, type_of, NULL, &resources, &error);
    FUZZ_ASSERT(status == FACET_OK || (status == FACET_CORRUPT && error.message[0]));
    if (status == FACET_OK && facet_resources_format_legacy(resources, type_of, NULL, &back, NULL) == FACET_OK) {
        /* A written document is read again without a change. */
        FUZZ_ASSERT(facet_resources_parse_legacy(back, strlen(back), type_of, NULL, &again, &error) == FACET_OK);
        FUZZ_ASSERT(facet_resources_format_legacy(again, type_of, NULL, &second, NULL) == FACET_OK);
        FUZZ_ASSERT(strcmp(back, second) == 0);
    }
    if (facet_spec_parse_binary(text, &bytes, NULL) == FACET_OK)
        FUZZ_ASSERT(facet_spec_parse_binary(facet_spec_format_binary(bytes, shown), &same, NULL) == FACET_OK &&
                    same == bytes);
    facet_resources_destroy(resources);
    facet_resources_destroy(again);
    free(back);
    free(second);
    free(text);
    return 0;
}
