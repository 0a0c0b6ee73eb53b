/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing the reader of names of targets, and the detection of a source's language. */
#include "kernel/options.h"

#include "fuzz.h"

static void check_target(const char *text)
{
    struct facet_error error = {0};
    struct facet_target target, again;

    enum facet_status status = facet_target_read(text, &target, &error);
    if (status == FACET_OK) {
        FUZZ_ASSERT(strlen(target.name) < sizeof target.name);
        FUZZ_ASSERT(facet_target_read(target.name, &again, NULL) == FACET_OK && strcmp(again.name, target.name) == 0);
        FUZZ_ASSERT(!target.processor[0] || target.processor == strchr(target.name, ':') + 1);
    } else {
        FUZZ_ASSERT(status == FACET_INVALID_ARGUMENT || status == FACET_UNSUPPORTED);
        FUZZ_ASSERT(strcmp(error.argument, "target") == 0 && !strchr(error.message, '\n'));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *exact = malloc(size ? size : 1);

    FUZZ_ASSERT(exact);
    check_target(text);
    memcpy(exact, data, size);
    uint32_t kind = facet_source_detect(exact, size);
    FUZZ_ASSERT(kind == FACET_SOURCE_OPENCL_C || kind == FACET_SOURCE_LLVM_IR || kind == FACET_SOURCE_SPIRV);
    free(text);
    free(exact);
    return 0;
}
