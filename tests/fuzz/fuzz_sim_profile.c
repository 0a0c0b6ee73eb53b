/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing sim_machine_parse(): the profiles of the sim provider. */
#include "machine.h"

#include "fuzz.h"

/* The properties that the rest of the provider relies on. */
static void check_machine(const struct sim_machine *machine)
{
    FUZZ_ASSERT(machine->device_count > 0 && machine->device_count <= SIM_MAX_DEVICES);
    FUZZ_ASSERT(machine->node_count >= machine->device_count);
    for (uint32_t i = 0; i < machine->device_count; i++) {
        const struct sim_device *device = &machine->devices[i];
        const struct sim_partitioning *partitioning = &device->product->partitioning;

        FUZZ_ASSERT(memchr(device->info.name, '\0', sizeof device->info.name));
        FUZZ_ASSERT(strncmp(device->info.name, "Simulated ", 10) == 0);
        FUZZ_ASSERT(device->info.compute_units <= SIM_MAX_UNITS);
        for (uint32_t j = 0; j < partitioning->template_count; j++) {
            const struct sim_template *template = &partitioning->templates[j];

            FUZZ_ASSERT(memchr(template->info.id, '\0', sizeof template->info.id));
            for (uint32_t k = 0; k < template->start_count; k++)
                FUZZ_ASSERT(template->starts[k] + template->info.length <= partitioning->slices);
        }
    }
    for (uint32_t i = 0; i < machine->link_count; i++)
        FUZZ_ASSERT(machine->links[i].a < machine->links[i].b && machine->links[i].b < machine->node_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_error error = {0};
    struct sim_machine *machine = NULL;
    char *text = fuzz_text(data, size);
    enum facet_status status = sim_machine_parse("fuzz", text, size, &machine, &error);

    free(text);
    FUZZ_ASSERT((status == FACET_OK) == (machine != NULL));
    if (machine) {
        check_machine(machine);
        sim_machine_close(machine);
        return 0;
    }
    FUZZ_ASSERT(error.status == status);
    FUZZ_ASSERT(memchr(error.message, '\0', sizeof error.message));
    FUZZ_ASSERT(strstr(error.message, "expected"));
    return 0;
}
