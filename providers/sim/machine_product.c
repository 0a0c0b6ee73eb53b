/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading one product of a profile: its numbers, properties and partition templates, and the relations that must
 * hold between them.
 * Never: knows devices.
 */
#include <string.h>

#include "kernel.h"
#include "machine.h"
#include "provider_kit.h"

#define TIB (INT64_C(1) << 40)

enum width { WIDTH_16, WIDTH_32, WIDTH_64 };

/* Every number of a product, and where it is stored. */
#define MODEL(member) offsetof(struct sim_product, model.member)
#define INFO(member)  offsetof(struct sim_product, info.member)
static const struct number {
    const char *name;
    int64_t low, high;
    size_t offset;
    enum width width;
} numbers[] = {
    {"memory_bytes", 1 << 20, 4 * TIB, MODEL(memory_bytes), WIDTH_64},
    {"compute_units", 1, SIM_MAX_UNITS, MODEL(compute_units), WIDTH_32},
    {"groups_per_unit", 1, 1024, MODEL(groups_per_unit), WIDTH_32},
    {"clock_mhz", 1, 100000, MODEL(clock_mhz), WIDTH_32},
    {"clock_low_mhz", 1, 100000, MODEL(clock_low_mhz), WIDTH_32},
    {"bandwidth_mbps", 1, 1000000000, MODEL(bandwidth_mbps), WIDTH_32},
    {"idle_mw", 0, 100000000, MODEL(idle_mw), WIDTH_64},
    {"peak_mw", 1, 100000000, MODEL(peak_mw), WIDTH_64},
    {"limit_mw", 1, 100000000, MODEL(limit_mw), WIDTH_64},
    {"ambient_mc", -100000, 200000, MODEL(ambient_mc), WIDTH_32},
    {"limit_mc", -100000, 200000, MODEL(limit_mc), WIDTH_32},
    {"heat_mc_per_w", 0, 100000, MODEL(heat_mc_per_w), WIDTH_32},
    {"heat_time_ns", 1, INT64_C(3600000000000), MODEL(heat_time_ns), WIDTH_64},
    {"page_bytes", 4096, 1 << 30, MODEL(page_bytes), WIDTH_32},
    {"peak_gflops", 1, INT64_C(1000000000000), INFO(peak_gflops), WIDTH_64},
    {"pcie_generation", 1, 8, INFO(pcie_generation), WIDTH_16},
    {"pcie_width", 1, 32, INFO(pcie_width), WIDTH_16},
    {"max_workers", 1, 4096, INFO(max_workers), WIDTH_32},
};
#define NUMBERS (sizeof numbers / sizeof numbers[0])

static const char *const product_members[] = {"name",
                                              "kind",
                                              "source",
                                              "modelled",
                                              "memory_bytes",
                                              "compute_units",
                                              "groups_per_unit",
                                              "clock_mhz",
                                              "clock_low_mhz",
                                              "bandwidth_mbps",
                                              "idle_mw",
                                              "peak_mw",
                                              "limit_mw",
                                              "ambient_mc",
                                              "limit_mc",
                                              "heat_mc_per_w",
                                              "heat_time_ns",
                                              "page_bytes",
                                              "peak_gflops",
                                              "pcie_generation",
                                              "pcie_width",
                                              "max_workers",
                                              "properties",
                                              "partitioning",
                                              NULL};

static const char *const partitioning_members[] = {"compute_slices", "first_units", "templates", NULL};

static const char *const template_members[] = {
    "id", "mode", "memory_bytes", "compute_units", "compute_slices", "length", "starts", "max_count", NULL};

static const struct sim_choice kinds[] = {
    {"gpu", FACET_DEVICE_GPU}, {"npu", FACET_DEVICE_NPU}, {"accelerator", FACET_DEVICE_ACCELERATOR}, {NULL, 0}};

static int64_t member_integer(const struct sim_json *at, const char *name, int64_t low, int64_t high)
{
    struct sim_json member = sim_json_member(at, name);

    return sim_json_integer(&member, low, high);
}

static void store_number(struct sim_product *product, const struct number *number, int64_t value)
{
    char *place = (char *)product + number->offset;

    if (number->width == WIDTH_16)
        *(uint16_t *)place = (uint16_t)value;
    else if (number->width == WIDTH_32)
        *(uint32_t *)place = (uint32_t)value; /* also for the temperatures, which are signed */
    else
        *(uint64_t *)place = (uint64_t)value;
}

static void refuse_member(const struct sim_json *at, const char *name, const char *expected)
{
    struct sim_json member = sim_json_member(at, name);

    sim_json_refuse(&member, "%s", expected);
}

static void read_numbers(const struct sim_json *at, struct sim_product *product)
{
    const struct sim_model *model = &product->model;

    for (size_t i = 0; i < NUMBERS; i++)
        store_number(product, &numbers[i], member_integer(at, numbers[i].name, numbers[i].low, numbers[i].high));
    if (model->clock_low_mhz > model->clock_mhz)
        refuse_member(at, "clock_low_mhz", "at most clock_mhz");
    if (model->idle_mw >= model->peak_mw)
        refuse_member(at, "idle_mw", "less than peak_mw");
    if (model->idle_mw >= model->limit_mw)
        refuse_member(at, "limit_mw", "more than idle_mw");
    if (model->ambient_mc >= model->limit_mc)
        refuse_member(at, "ambient_mc", "less than limit_mc");
    if (model->page_bytes & (model->page_bytes - 1))
        refuse_member(at, "page_bytes", "a power of two");
    if (model->memory_bytes % model->page_bytes)
        refuse_member(at, "memory_bytes", "a multiple of page_bytes");
}

static void add_property(struct sim_product *product, const struct sim_json *at, const char *key, const char *value)
{
    size_t length = strlen(product->properties), room = sizeof product->properties - length;

    if (snprintf(product->properties + length, room, "%s=%s\n", key, value) >= (int)room)
        sim_json_refuse(at, "at most %zu characters of properties", sizeof product->properties - 1);
}

static void read_properties(const struct sim_json *at, struct sim_product *product)
{
    const char *key;
    json_t *value;

    add_property(product, at, "simulated", "true");
    add_property(product, at, "conformance_kernel", SIM_CONFORMANCE_KERNEL);
    add_property(product, at, "conformance_image", SIM_CONFORMANCE_IMAGE);
    if (!json_is_object(at->value))
        sim_json_refuse(at, "an object of texts");
    json_object_foreach (at->value, key, value) {
        struct sim_json member = sim_json_member(at, key);

        if (key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_")])
            sim_json_refuse(&member, "a name of lower-case letters, digits and _");
        add_property(product, &member, key, sim_json_text(&member, 100));
    }
}

static bool is_number(const char *name)
{
    for (size_t i = 0; i < NUMBERS; i++)
        if (strcmp(numbers[i].name, name) == 0)
            return true;
    return false;
}

/* Keeps the sources of the numbers, and the names of the modelled ones, as properties of the device. */
static void read_sources(const struct sim_json *at, struct sim_product *product)
{
    struct sim_json source = sim_json_member(at, "source"), modelled = sim_json_member(at, "modelled");
    size_t sources = sim_json_count(&source, 1, 16), count = sim_json_count(&modelled, 0, NUMBERS);
    char list[512] = "";

    for (size_t i = 0; i < sources; i++) {
        struct sim_json item = sim_json_item(&source, i);

        sim_json_text(&item, 300);
    }
    for (size_t i = 0; i < count; i++) {
        struct sim_json item = sim_json_item(&modelled, i);
        const char *name = sim_json_text(&item, 32);
        size_t length = strlen(list);

        if (!is_number(name))
            sim_json_refuse(&item, "the name of a number of the product");
        snprintf(list + length, sizeof list - length, "%s%s", i ? "," : "", name);
    }
    if (count > 0)
        add_property(product, &modelled, "modelled", list);
}

static void read_starts(const struct sim_json *at, const struct sim_partitioning *partitioning,
                        struct sim_template *template)
{
    uint32_t length = template->info.length, last = partitioning->slices - length;

    template->start_count = (uint32_t)sim_json_count(at, 1, SIM_MAX_SLICES);
    for (uint32_t i = 0; i < template->start_count; i++) {
        struct sim_json item = sim_json_item(at, i);
        uint32_t start = (uint32_t)sim_json_integer(&item, i ? template->starts[i - 1] + 1 : 0, last);

        template->starts[i] = start;
        if (start <= last &&
            template->info.compute_units > partitioning->first_units[start + length] - partitioning->first_units[start])
            sim_json_refuse(&item, "slices with the template's %" PRIu32 " compute units",
                            template->info.compute_units);
    }
}

static void read_template(const struct sim_json *at, const struct sim_product *product, struct sim_template *template)
{
    const struct sim_partitioning *partitioning = &product->partitioning;
    struct facet_partition_template *info = &template->info;
    uint64_t slice_bytes = product->model.memory_bytes / partitioning->slices;

    sim_json_only(at, template_members);
    struct sim_json id = sim_json_member(at, "id"), starts = sim_json_member(at, "starts");
    FACET_KIT_TEXT(info->id, sim_json_match(&id, "^[0-9a-z][0-9a-z.+-]{0,30}$"));
    if (sim_json_has(at, "mode")) {
        struct sim_json mode = sim_json_member(at, "mode");

        FACET_KIT_TEXT(template->mode, sim_json_match(&mode, "^[a-z][0-9a-z-]{0,14}$"));
    }
    info->size = sizeof *info;
    info->valid = FACET_PARTITION_HAS_MEMORY | FACET_PARTITION_HAS_OVERHEAD;
    info->length = (uint32_t)member_integer(at, "length", 1, partitioning->slices);
    info->memory_bytes = (uint64_t)member_integer(at, "memory_bytes", 1 << 20, (int64_t)(slice_bytes * info->length));
    info->overhead_bytes = slice_bytes * info->length - info->memory_bytes;
    info->compute_units = (uint32_t)member_integer(at, "compute_units", 1, product->model.compute_units);
    info->compute_milli = info->compute_units * FACET_MILLI_WHOLE / product->model.compute_units;
    template->compute_slices = (uint32_t)member_integer(at, "compute_slices", 1, partitioning->compute_slices);
    read_starts(&starts, partitioning, template);
    info->max_count = (uint32_t)member_integer(at, "max_count", 1, template->start_count ? template->start_count : 1);
}

static void read_first_units(const struct sim_json *at, struct sim_product *product)
{
    struct sim_partitioning *partitioning = &product->partitioning;
    uint32_t units = product->model.compute_units;

    partitioning->slices = (uint32_t)sim_json_count(at, 1, SIM_MAX_SLICES);
    for (uint32_t i = 0; i < partitioning->slices; i++) {
        struct sim_json item = sim_json_item(at, i);
        uint32_t low = i ? partitioning->first_units[i - 1] + 1 : 0;

        partitioning->first_units[i] = (uint32_t)sim_json_integer(&item, low, i ? units - 1 : 0);
    }
    partitioning->first_units[partitioning->slices] = units;
}

static void read_partitioning(const struct sim_json *at, struct sim_product *product)
{
    struct sim_partitioning *partitioning = &product->partitioning;

    sim_json_only(at, partitioning_members);
    struct sim_json units = sim_json_member(at, "first_units"), templates = sim_json_member(at, "templates");
    read_first_units(&units, product);
    partitioning->compute_slices = (uint32_t)member_integer(at, "compute_slices", 1, SIM_MAX_SLICES);
    partitioning->template_count = (uint32_t)sim_json_count(&templates, 1, SIM_MAX_TEMPLATES);
    for (uint32_t i = 0; i < partitioning->template_count && at->document->status == FACET_OK; i++) {
        struct sim_json item = sim_json_item(&templates, i);

        read_template(&item, product, &partitioning->templates[i]);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(partitioning->templates[j].info.id, partitioning->templates[i].info.id) == 0)
                refuse_member(&item, "id", "a name that no other template has");
    }
}

/*
 * The capabilities of every simulated device; the engine implements memory, execution, snapshots and metrics.
 */
#define CAPABILITIES                                                                                                   \
    (FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE | FACET_CAN_SNAPSHOT | FACET_CAN_DEVICE_METRICS |                \
     FACET_CAN_PROCESS_METRICS | FACET_CAN_LINK_METRICS | FACET_CAN_TOPOLOGY | FACET_CAN_EVENTS |                      \
     FACET_CAN_CONTAINER | FACET_CAN_MEMORY | FACET_CAN_MAP_MEMORY | FACET_CAN_EXECUTE)

/*
 * `shared` and `soft` both time-share the whole device. `hard` reserves units, and partitions exclude every use of the
 * device as a whole (ADR 9).
 */
static void fill_modes(struct facet_device_info *info, const struct sim_partitioning *partitioning)
{
    info->modes =
        FACET_DEVICE_MODE(FACET_MODE_SHARED) | FACET_DEVICE_MODE(FACET_MODE_SOFT) | FACET_DEVICE_MODE(FACET_MODE_HARD);
    info->mode_group[FACET_MODE_SHARED] = 1;
    info->mode_group[FACET_MODE_SOFT] = 1;
    info->mode_group[FACET_MODE_HARD] = 2;
    info->capabilities = CAPABILITIES;
    if (partitioning->slices == 0)
        return;
    info->modes |= FACET_DEVICE_MODE(FACET_MODE_PARTITIONED);
    info->mode_group[FACET_MODE_PARTITIONED] = 3;
    info->capabilities |= FACET_CAN_PARTITION;
    for (uint32_t i = 0; i < partitioning->template_count; i++)
        if (partitioning->templates[i].info.max_count > info->max_partitions)
            info->max_partitions = partitioning->templates[i].info.max_count;
}

static void fill_info(struct sim_product *product, const char *name)
{
    struct facet_device_info *info = &product->info;

    info->size = sizeof *info;
    info->valid = FACET_DEVICE_HAS_MEMORY | FACET_DEVICE_HAS_MAX_ALLOC | FACET_DEVICE_HAS_COMPUTE_UNITS |
                  FACET_DEVICE_HAS_CLOCK | FACET_DEVICE_HAS_MAX_PARTITIONS | FACET_DEVICE_HAS_PEAK_RATE |
                  FACET_DEVICE_HAS_MEMORY_BANDWIDTH | FACET_DEVICE_HAS_PCIE_LINK | FACET_DEVICE_HAS_MAX_WORKERS;
    snprintf(info->name, sizeof info->name, "Simulated %s", name);
    snprintf(info->vendor, sizeof info->vendor, "Facet (simulated)");
    snprintf(info->driver_version, sizeof info->driver_version, "%s (simulated)", FACET_VERSION);
    info->memory_bytes = product->model.memory_bytes;
    info->max_alloc_bytes = product->model.memory_bytes;
    info->compute_units = product->model.compute_units;
    info->clock_mhz = product->model.clock_mhz;
    info->memory_bandwidth_mbps = product->model.bandwidth_mbps;
    fill_modes(info, &product->partitioning);
}

void sim_product_read(const struct sim_json *at, const char *id, struct sim_product *product)
{
    snprintf(product->id, sizeof product->id, "%s", id);
    sim_json_only(at, product_members);
    struct sim_json name = sim_json_member(at, "name"), kind = sim_json_member(at, "kind");
    struct sim_json properties = sim_json_member(at, "properties");
    product->info.kind = sim_json_choice(&kind, kinds);
    read_numbers(at, product);
    read_properties(&properties, product);
    read_sources(at, product);
    if (sim_json_has(at, "partitioning") && at->document->status == FACET_OK) {
        struct sim_json partitioning = sim_json_member(at, "partitioning");

        read_partitioning(&partitioning, product);
    }
    fill_info(product, sim_json_text(&name, 110));
}
