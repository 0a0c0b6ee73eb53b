/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing facet_amount_parse(): an accepted amount can be printed and parsed again; a refusal has a reason. */
#include <facet/allocation.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), again[FACET_AMOUNT_SIZE];
    struct facet_error error = {0};
    int64_t amount = -77, second = -77; /* no amount: a refusal must not change it */
    enum facet_status status = facet_amount_parse(text, "amount", &amount, &error);

    if (status == FACET_OK) {
        FUZZ_ASSERT(amount >= 0);
        FUZZ_ASSERT(facet_amount_format(amount, again, sizeof again) == again && strlen(again) < sizeof again);
        FUZZ_ASSERT(facet_amount_parse(again, "amount", &second, &error) == FACET_OK && second == amount);
    } else {
        FUZZ_ASSERT(amount == -77);
        fuzz_check_refusal(status, &error, "amount");
    }
    free(text);
    return 0;
}
