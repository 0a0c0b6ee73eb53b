/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing sim_faults_parse() with scripts of faults for a machine of two devices and a link. */
#include "core.h"

#include "fuzz.h"

static struct sim_machine *two_devices(void)
{
    static struct facet_topology_link link = {.size = sizeof link, .a = 0, .b = 1};
    static struct sim_machine machine = {.device_count = 2, .link_count = 1, .links = &link};

    return &machine;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_error error = {0};
    struct sim_faults *faults = NULL;
    char *text = fuzz_text(data, size);
    enum facet_status status = sim_faults_parse("fuzz", text, size, two_devices(), &faults, &error);

    free(text);
    FUZZ_ASSERT((status == FACET_OK) == (faults != NULL));
    if (faults) {
        struct facet_provider_instance instance = {.machine = two_devices(), .faults = faults};
        uint64_t next_ns = sim_faults_next(&instance);

        FUZZ_ASSERT(next_ns == UINT64_MAX || next_ns <= INT64_MAX);
        FUZZ_ASSERT(sim_fault_health(&instance, 1) == FACET_HEALTH_OK); /* no fault is in effect yet */
        sim_faults_close(faults);
        return 0;
    }
    FUZZ_ASSERT(error.status == status);
    FUZZ_ASSERT(memchr(error.message, '\0', sizeof error.message));
    FUZZ_ASSERT(strstr(error.message, "expected"));
    return 0;
}
