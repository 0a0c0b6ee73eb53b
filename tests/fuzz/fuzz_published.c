/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing facet_published_parse(): what an accepted input describes has terminated, printable texts, and is the
 * same after it was written and read again.
 */
#include "vgpu/published.h"

#include <stdlib.h>

#include "fuzz.h"

static void check_text(const char *text, size_t size)
{
    size_t length = strnlen(text, size);

    FUZZ_ASSERT(length < size);
    for (size_t i = 0; i < length; i++)
        FUZZ_ASSERT(text[i] >= 0x20 && text[i] <= 0x7e);
}

static void check_same(const struct facet_published *driver, const struct facet_published *again)
{
    FUZZ_ASSERT(again->devices == driver->devices && again->vgpus == driver->vgpus);
    FUZZ_ASSERT(strcmp(again->program, driver->program) == 0);
    for (uint32_t i = 0; i < driver->devices; i++)
        FUZZ_ASSERT(memcmp(&again->device[i], &driver->device[i], sizeof driver->device[i]) == 0);
    for (uint32_t i = 0; i < driver->vgpus; i++)
        FUZZ_ASSERT(memcmp(&again->vgpu[i], &driver->vgpu[i], sizeof driver->vgpu[i]) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_published driver = {.pid = 77}, again = {0}; /* 77: a refusal must not change it */

    if (facet_published_parse((const char *)data, size, &driver, NULL) != FACET_OK) {
        FUZZ_ASSERT(driver.pid == 77 && !driver.device && !driver.vgpu);
        return 0;
    }
    check_text(driver.program, sizeof driver.program);
    for (uint32_t i = 0; i < driver.devices; i++)
        check_text(driver.device[i].id, sizeof driver.device[i].id);
    for (uint32_t i = 0; i < driver.vgpus; i++)
        check_text(driver.vgpu[i].name, sizeof driver.vgpu[i].name);
    char *text = facet_published_text(&driver);
    FUZZ_ASSERT(text && facet_published_parse(text, strlen(text), &again, NULL) == FACET_OK);
    check_same(&driver, &again);
    facet_published_clear(&driver);
    facet_published_clear(&again);
    free(text);
    return 0;
}
