/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of locality, on a made-up machine: two memory nodes of four processors each. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/topology.h"

static int set_up(void **state)
{
    return setenv("HWLOC_SYNTHETIC", "package:2 [numa] core:2 pu:2", 1);
}

static struct facet_device_record fill_record(struct facet_device_info info)
{
    struct facet_device_record device = {.info = info};

    facet_topology_fill(&device, 1);
    return device;
}

static void a_memory_node_gives_its_processors(void **state)
{
    struct facet_device_record device = fill_record(
        (struct facet_device_info){.kind = FACET_DEVICE_GPU, .valid = FACET_DEVICE_HAS_NUMA, .numa_node = 1});

    assert_string_equal(device.cpuset, "4-7");
    assert_int_equal(device.info.numa_node, 1);
}

static void a_cpu_device_is_near_all_processors(void **state)
{
    struct facet_device_record device = fill_record((struct facet_device_info){.kind = FACET_DEVICE_CPU});

    assert_string_equal(device.cpuset, "0-7");
    assert_int_equal(device.info.valid & FACET_DEVICE_HAS_NUMA, 0);
}

static void a_device_without_a_known_location_has_no_processors(void **state)
{
    struct facet_device_record device = fill_record((struct facet_device_info){.kind = FACET_DEVICE_GPU});

    assert_string_equal(device.cpuset, "");
    assert_int_equal(device.info.valid, 0);
    device = fill_record(
        (struct facet_device_info){.kind = FACET_DEVICE_GPU, .valid = FACET_DEVICE_HAS_NUMA, .numa_node = 9});
    assert_string_equal(device.cpuset, "");
    device = fill_record((struct facet_device_info){
        .kind = FACET_DEVICE_GPU, .valid = FACET_DEVICE_HAS_PCI, .pci_address = "0000:99:00.0"});
    assert_string_equal(device.cpuset, "");
}

/* Takes the real machine's first PCI device: hwloc and the kernel must agree on which processors are near it. */
static void a_pci_device_is_near_the_processors_that_the_kernel_names(void **state)
{
    struct facet_device_info info = {.kind = FACET_DEVICE_GPU, .valid = FACET_DEVICE_HAS_PCI};
    char path[64], processors[256] = "";
    glob_t found;

    unsetenv("HWLOC_SYNTHETIC");
    if (glob("/sys/bus/pci/devices/????:??:??.?", 0, NULL, &found) != 0)
        skip();
    snprintf(info.pci_address, sizeof info.pci_address, "%s", strrchr(found.gl_pathv[0], '/') + 1);
    globfree(&found);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/local_cpulist", info.pci_address);
    FILE *file = fopen(path, "r");
    if (!file)
        skip();
    assert_non_null(fgets(processors, sizeof processors, file));
    fclose(file);
    processors[strcspn(processors, "\n")] = '\0';
    assert_string_equal(fill_record(info).cpuset, processors);
}

static void an_unreadable_machine_is_no_error(void **state)
{
    setenv("HWLOC_SYNTHETIC", "nonsense", 1);
    setenv("HWLOC_COMPONENTS", "synthetic,stop", 1);
    struct facet_device_record device = fill_record((struct facet_device_info){.kind = FACET_DEVICE_GPU});
    unsetenv("HWLOC_COMPONENTS");

    assert_string_equal(device.cpuset, "");
    facet_topology_fill(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_memory_node_gives_its_processors, set_up),
        cmocka_unit_test_setup(a_cpu_device_is_near_all_processors, set_up),
        cmocka_unit_test_setup(a_device_without_a_known_location_has_no_processors, set_up),
        cmocka_unit_test_setup(a_pci_device_is_near_the_processors_that_the_kernel_names, set_up),
        cmocka_unit_test_setup(an_unreadable_machine_is_no_error, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
