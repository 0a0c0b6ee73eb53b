/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing facet_parse_size(): the first eight bytes are the size of which a percentage is taken, the rest is the
 * text. */
#include <facet/limits.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_error error = {0};
    uint64_t whole, bytes = 4711; /* a refusal must not change it */

    if (size < sizeof whole)
        return 0;
    memcpy(&whole, data, sizeof whole);
    char *text = fuzz_text(data + sizeof whole, size - sizeof whole);
    enum facet_status status = facet_parse_size(text, "memory", whole, &bytes, &error);
    if (status == FACET_OK) {
        char written[16];

        FUZZ_ASSERT(bytes > 0);
        FUZZ_ASSERT(!strchr(text, '%') || bytes <= whole);
        FUZZ_ASSERT(strlen(facet_format_size(bytes, written, sizeof written)) < sizeof written - 1);
    } else {
        FUZZ_ASSERT(bytes == 4711);
        fuzz_check_refusal(status, &error, "memory");
    }
    free(text);
    return 0;
}
