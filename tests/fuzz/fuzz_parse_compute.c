/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing facet_parse_compute(): an accepted share is within its bounds; a refusal has a reason and changes
 * nothing. */
#include <facet/limits.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_error error = {0};
    uint32_t request = 4711, limit = 4712; /* more than the whole device: no valid shares */
    char *text = fuzz_text(data, size);
    enum facet_status status = facet_parse_compute(text, "compute", &request, &limit, &error);

    if (status == FACET_OK) {
        FUZZ_ASSERT(request >= 1 && request <= limit && limit <= FACET_MILLI_WHOLE);
        FUZZ_ASSERT(strchr(text, ':') || limit == FACET_MILLI_WHOLE);
    } else {
        FUZZ_ASSERT(request == 4711 && limit == 4712);
        fuzz_check_refusal(status, &error, "compute");
    }
    free(text);
    return 0;
}
