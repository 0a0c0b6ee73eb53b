/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing facet_spirv_plain(), which rewrites SPIR-V before the translator sees it: any bytes, whole words or
 * not. */
#include "kernel/compile/spirv.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_error error = {0};
    uint32_t *words = NULL;
    size_t count = 0;
    uint32_t sum = 0;
    enum facet_status status = facet_spirv_plain(data, size, &words, &count, &error);

    if (status == FACET_OK) {
        FUZZ_ASSERT(count >= 5 &&
                    count <= 2 * (size / sizeof *words)); /* a null constant of too many words is shortened */
        for (size_t i = 0; i < count; i++)
            sum ^= words[i]; /* reads each word, for the sanitizer */
        __asm__ volatile("" : : "r"(sum));
        free(words);
    } else {
        FUZZ_ASSERT(status == FACET_CORRUPT && !words && error.message[0]);
    }
    return 0;
}
