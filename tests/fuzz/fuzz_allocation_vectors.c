/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing the replay of allocation vectors: the parser of files, and the allocation maps that run the steps. */
#include <facet/allocation.h>

#include "placement/maps/replay.h"

#include "fuzz.h"

static void take_result(void *user, const struct facet_replay_result *result)
{
    uint32_t *count = user;

    ++*count;
    FUZZ_ASSERT(result->id && result->notes && result->fault);
    FUZZ_ASSERT(!result->fault[0] || result->fault[strlen(result->fault) - 1] == '\n');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_replay_summary summary = {0};
    struct facet_error error = {0};
    uint32_t count = 0;
    char *text = fuzz_text(data, size);

    if (facet_replay_run(text, size, take_result, &count, &summary, &error) == FACET_OK) {
        FUZZ_ASSERT(count > 0 && summary.passed + summary.failed == count && summary.defects <= summary.passed);
        FUZZ_ASSERT(summary.broken == 0); /* no outcome of this library breaks a rule, whatever the file recorded */
    } else {
        FUZZ_ASSERT(count == 0 && error.message[0]);
        FUZZ_ASSERT(error.status == FACET_INVALID_ARGUMENT || error.status == FACET_OUT_OF_RANGE);
    }
    free(text);
    return 0;
}
