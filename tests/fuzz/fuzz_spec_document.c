/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing the readers of node documents and of workload configurations: after a first byte 'w' the text is a
 * configuration, otherwise a document. */
#include <stdbool.h>

#include <facet/workload.h>

#include "fuzz.h"

/* Puts each device and each slot again in its own place. */
static void put_all(struct facet_spec *spec)
{
    struct facet_spec_device device = {.size = sizeof device};
    struct facet_spec_slot slot = {.size = sizeof slot};

    for (uint32_t i = 0; facet_spec_get_device(spec, i, &device, NULL) == FACET_OK; i++)
        FUZZ_ASSERT(facet_spec_put_device(spec, &device, NULL) == FACET_OK);
    for (uint32_t i = 0; facet_spec_get_slot(spec, i, &slot, NULL) == FACET_OK; i++)
        FUZZ_ASSERT(facet_spec_put_slot(spec, &slot, NULL) == FACET_OK);
}

/* A document that was accepted can be written and read again as the same text, and each of its devices and slots can
 * be put again. */
static void check_node(struct facet_spec *spec)
{
    struct facet_spec *again = NULL;
    char *first = NULL, *second = NULL, *third = NULL, *view = NULL;

    FUZZ_ASSERT(facet_spec_write(spec, &first, NULL) == FACET_OK);
    FUZZ_ASSERT(facet_spec_read(first, strlen(first), &again, NULL) == FACET_OK);
    FUZZ_ASSERT(facet_spec_write(again, &second, NULL) == FACET_OK && strcmp(first, second) == 0);
    put_all(again);
    free(second);
    FUZZ_ASSERT(facet_spec_write(again, &second, NULL) == FACET_OK);
    /* The first put may add what the document leaves to its older members; another one changes nothing. */
    put_all(again);
    FUZZ_ASSERT(facet_spec_write(again, &third, NULL) == FACET_OK && strcmp(second, third) == 0);
    if (facet_spec_legacy_devices(again, &view, NULL) == FACET_OK)
        free(view);
    free(first);
    free(second);
    free(third);
    facet_spec_destroy(again);
}

static void check_workload(struct facet_workload *workload)
{
    struct facet_violations *left = NULL;
    struct facet_workload *again = NULL;
    char *text = NULL, *second = NULL;

    FUZZ_ASSERT(facet_workload_write(workload, &text, NULL) == FACET_OK);
    FUZZ_ASSERT(facet_workload_read(text, strlen(text), &again, NULL) == FACET_OK);
    /* Merging a configuration into itself finds no contradiction, and changes nothing. */
    FUZZ_ASSERT(facet_workload_merge(again, "a", workload, "b", NULL) == FACET_OK);
    FUZZ_ASSERT(facet_workload_write(again, &second, NULL) == FACET_OK && strcmp(text, second) == 0);
    free(text);
    free(second);
    for (uint32_t form = 0; facet_render_name(form); form++) {
        text = NULL;
        if (facet_workload_render(workload, form, NULL, &text, &left, NULL) != FACET_OK)
            continue;
        free(text);
        facet_violations_destroy(left);
    }
    facet_workload_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_violations *violations = NULL;
    struct facet_workload *workload = NULL;
    struct facet_spec *spec = NULL;
    struct facet_error error = {0};

    if (size == 0)
        return 0;
    uint32_t kind = data[0] == 'w' ? FACET_DOCUMENT_WORKLOAD : FACET_DOCUMENT_NODE;
    char *text = fuzz_text(data + 1, size - 1);
    enum facet_status status = facet_document_check(kind, text, size - 1, &violations, &error);
    bool valid = status == FACET_OK && facet_violations_total(violations) == 0;

    FUZZ_ASSERT(status == FACET_OK || (status == FACET_INVALID_ARGUMENT && strstr(error.message, "line ")));
    status = kind == FACET_DOCUMENT_WORKLOAD ? facet_workload_read(text, size - 1, &workload, &error)
                                             : facet_spec_read(text, size - 1, &spec, &error);
    FUZZ_ASSERT((status == FACET_OK) == valid);
    if (spec)
        check_node(spec);
    if (workload)
        check_workload(workload);
    facet_violations_destroy(violations);
    facet_workload_destroy(workload);
    facet_spec_destroy(spec);
    free(text);
    return 0;
}
