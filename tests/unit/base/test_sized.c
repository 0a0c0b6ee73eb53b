/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that members which only a newer program sets are refused, never ignored: by facet_sized_known(), and
 * by functions of every room that take a struct which begins with its size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <facet/allocation.h>
#include <facet/kernel.h>
#include <facet/measurement.h>
#include <facet/memory.h>
#include <facet/passthrough_bind.h>
#include <facet/pci.h>
#include <facet/pci_watch.h>
#include <facet/placement.h>
#include <facet/session.h>
#include <facet/spec.h>
#include <facet/vgpu.h>
#include <facet/workload.h>

#include "base/sized.h"

/* --- the rule --- */

struct known {
    uint32_t size, a;
    uint64_t b;
};

struct newer {
    struct known known;
    uint64_t c, d;
};

static void the_tail_must_be_zero(void **state)
{
    struct newer newer = {.known = {.size = sizeof newer, .a = 1, .b = 2}};
    struct facet_error error = {0};

    assert_int_equal(facet_sized_known("x", NULL, sizeof newer.known, NULL), FACET_OK);
    assert_int_equal(facet_sized_known("x", &newer, sizeof newer.known, NULL), FACET_OK);
    newer.d = UINT64_C(1) << 56; /* the very last byte */
    assert_int_equal(facet_sized_known("x", &newer, sizeof newer.known, &error), FACET_UNSUPPORTED);
    assert_string_equal(error.argument, "x");
    assert_string_equal(error.message, "x: byte 31 of 32 is set, and this library knows 16: leave what is newer 0, or "
                                       "use a newer library");
    newer.known.size = sizeof newer.known; /* with this size the last byte is not part of the struct */
    assert_int_equal(facet_sized_known("x", &newer, sizeof newer.known, NULL), FACET_OK);
    newer.known.size = UINT32_MAX; /* no caller's struct is that large */
    assert_int_equal(facet_sized_known("x", &newer, sizeof newer.known, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.message, "x: size 4294967295, expected that of its struct, 16");
    assert_int_equal(facet_sized_reserved("x", &newer.c, sizeof newer.c, NULL), FACET_OK);
    assert_int_equal(facet_sized_reserved("x", &newer.d, sizeof newer.d, &error), FACET_UNSUPPORTED);
    assert_string_equal(error.argument, "reserved");
}

/* --- every room --- */

enum { UNKNOWN_BYTES = 16, SIZE_MOST = 4096 };

/* Passes the struct in the buffer to one function. */
typedef enum facet_status (*sized_call)(const void *buffer, struct facet_error *error);

static void expect_refusals(const char *name, const void *good, size_t bytes, size_t reserved, sized_call ask)
{
    _Alignas(16) unsigned char buffer[SIZE_MOST + UNKNOWN_BYTES] = {0};
    uint32_t size = (uint32_t)bytes + UNKNOWN_BYTES;
    struct facet_error error = {0};

    assert_true(bytes <= SIZE_MOST);
    memcpy(buffer, good, bytes);
    memcpy(buffer, &size, sizeof size);
    ask(buffer, &error);
    if (strstr(error.message, "this library knows"))
        fail_msg("%s: zeros behind the known members are refused: %s", name, error.message);
    buffer[size - 1] = 1;
    if (ask(buffer, &error) != FACET_UNSUPPORTED || !strstr(error.message, "this library knows"))
        fail_msg("%s: a set byte behind the known members is not refused: %s", name, error.message);
    memcpy(buffer, good, bytes);
    buffer[reserved] = 1;
    if (reserved && (ask(buffer, &error) != FACET_UNSUPPORTED || strcmp(error.argument, "reserved") != 0))
        fail_msg("%s: a reserved member that is set is not refused: %s", name, error.message);
}

#define CALL(name, expression)                                                                                         \
    static enum facet_status name(const void *buffer, struct facet_error *error)                                       \
    {                                                                                                                  \
        return expression;                                                                                             \
    }

static struct facet_spec *spec;
static struct facet_workload *workload;
static struct facet_resources *resources;
static struct facet_compiler *built;
static struct facet_fleet *open_fleet;
static struct facet_memory *host;
static int64_t reserved_agents;
static struct facet_simulate_result result = {.size = sizeof result};
static uint32_t chosen;
static struct {
    void *made;
} unused;
#define MADE(type) ((struct type **)&unused.made) /* where a function would return what it makes */

CALL(maps, facet_maps_create(buffer, MADE(facet_maps), error))
CALL(agents, facet_agents_split(buffer, &reserved_agents, error))
CALL(fleet, facet_fleet_create(buffer, MADE(facet_fleet), error))
CALL(simulation, facet_simulate(buffer, &result, error))
CALL(topology, facet_node_choose(buffer, 1, 1, &chosen, error))
CALL(session, facet_session_open("/nowhere", buffer, MADE(facet_session), error))
CALL(driver, facet_driver_open(buffer, MADE(facet_driver), error))
CALL(compiler, facet_compiler_create(buffer, MADE(facet_compiler), error))
CALL(compile, facet_compile(built, "", 0, buffer, MADE(facet_image), error))
CALL(request, facet_fleet_shape(open_fleet, buffer, &chosen, error))
CALL(defragment, facet_memory_defragment(host, buffer, NULL, error))
CALL(memory, facet_memory_open_host(buffer, MADE(facet_memory), error))
CALL(subject, facet_subject_create(buffer, MADE(facet_subject), error))
CALL(meter, facet_meter_check(buffer, error))
CALL(scan, facet_pci_scan(buffer, MADE(facet_pci_snapshot), error))
CALL(watch, facet_pci_watch_open(buffer, MADE(facet_pci_watch), error))
CALL(manager, facet_passthrough_open(buffer, MADE(facet_passthrough), error))
CALL(slot, facet_spec_put_slot(spec, buffer, error))
CALL(device, facet_spec_put_device(spec, buffer, error))
CALL(component, facet_spec_put_component(spec, buffer, error))
CALL(mount, facet_workload_add_mount(workload, buffer, error))
CALL(rendering, facet_workload_render(workload, FACET_RENDER_DOCKER, buffer, (char **)&unused.made, NULL, error))
CALL(record, facet_resources_add(resources, buffer, error))
CALL(hooked, facet_lifecycle_created(NULL, 0, buffer, error))
CALL(hook, facet_lifecycle_created((const struct facet_lifecycle_hook *const[]){buffer}, 1,
                                   &(struct facet_lifecycle_workload){.size = sizeof(struct facet_lifecycle_workload)},
                                   error))

/* Each call is refused before it makes anything, so that nothing has to be released. */
#define REFUSES(type, ask, reserved, ...)                                                                              \
    expect_refusals(#type, &(const struct type){.size = sizeof(struct type), __VA_ARGS__}, sizeof(struct type),        \
                    reserved, ask)
#define RESERVED(type) offsetof(struct type, reserved)

static void every_room_refuses_unknown_members(void **state)
{
    static const struct facet_map_config map = {.name = NULL};
    const void *never_read = &map;

    assert_int_equal(facet_spec_create(&spec, NULL), FACET_OK);
    assert_int_equal(facet_workload_create(&workload, NULL), FACET_OK);
    REFUSES(facet_maps_config, maps, RESERVED(facet_maps_config), .maps = &map);
    REFUSES(facet_agents_config, agents, 0, .mode = 99);
    REFUSES(facet_fleet_config, fleet, 0, .policy = 99);
    REFUSES(facet_simulate_config, simulation, RESERVED(facet_simulate_config), .nodes = never_read, .jobs = never_read,
            .moves = UINT32_MAX);
    REFUSES(facet_node_topology, topology, 0, .devices = 1);
    REFUSES(facet_session_options, session, RESERVED(facet_session_options), .place = 0);
    REFUSES(facet_driver_config, driver, RESERVED(facet_driver_config), .streams = UINT32_MAX);
    REFUSES(facet_compiler_options, compiler, 0, .cache_mode = 99);
    const struct facet_compiler_options uncached = {.size = sizeof uncached, .cache_mode = FACET_CACHE_BYPASS};
    assert_int_equal(facet_compiler_create(&uncached, &built, NULL), FACET_OK);
    REFUSES(facet_compile_options, compile, RESERVED(facet_compile_options), .source = 0);
    facet_compiler_destroy(built);
    const struct facet_fleet_node node = {.size = sizeof node, .cpu_milli = 1000, .memory_bytes = 1 << 20};
    const struct facet_fleet_config small = {.size = sizeof small, .nodes = &node, .node_count = 1};
    assert_int_equal(facet_fleet_create(&small, &open_fleet, NULL), FACET_OK);
    REFUSES(facet_fleet_request, request, RESERVED(facet_fleet_request), .num_gpu = UINT32_MAX);
    facet_fleet_destroy(open_fleet);
    const struct facet_memory_config of_host = {.size = sizeof of_host, .memory_bytes = 64 << 20};
    assert_int_equal(facet_memory_open_host(&of_host, &host, NULL), FACET_OK);
    REFUSES(facet_defragment_options, defragment, RESERVED(facet_defragment_options), .bytes = 0);
    facet_memory_close(host);
    REFUSES(facet_memory_config, memory, 0, .page_bytes = 1);
    REFUSES(facet_subject_config, subject, RESERVED(facet_subject_config), .kind = 99);
    REFUSES(facet_meter, meter, 0, .key = NULL);
    REFUSES(facet_pci_scan_config, scan, RESERVED(facet_pci_scan_config), .flags = 0x80000000);
    REFUSES(facet_pci_watch_config, watch, 0, .events = 99);
    REFUSES(facet_passthrough_config, manager, 0, .root = -1);
    REFUSES(facet_spec_slot, slot, RESERVED(facet_spec_slot), .type = 99);
    REFUSES(facet_spec_device, device, 0, .device_id = NULL);
    REFUSES(facet_spec_component, component, 0, .name = NULL);
    REFUSES(facet_workload_mount, mount, RESERVED(facet_workload_mount), .type = "bind", .target = "relative");
    facet_workload_destroy(workload);
    workload = NULL;
    REFUSES(facet_render_options, rendering, RESERVED(facet_render_options), .cdi_kind = NULL);
    facet_spec_destroy(spec);
    assert_int_equal(facet_resources_create(&resources, NULL), FACET_OK);
    REFUSES(facet_resources_record, record, RESERVED(facet_resources_record), .kind = 99);
    facet_resources_destroy(resources);
    REFUSES(facet_lifecycle_workload, hooked, 0, );
    REFUSES(facet_lifecycle_hook, hook, RESERVED(facet_lifecycle_hook), .name = "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tail_must_be_zero),
        cmocka_unit_test(every_room_refuses_unknown_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
