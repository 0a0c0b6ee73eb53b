/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of the table `device` without topology. Never: changes a device, except by a partition that causes
 * an event. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/check.h"

static enum facet_status call_list(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                   uint32_t capacity, uint32_t *ret_count)
{
    return check->device_ops.list(check->instance, items, item_size, capacity, ret_count, &check->error);
}

static void check_list(struct facet_check *check)
{
    const struct facet_check_list list = {"device.list", sizeof(struct facet_device_info), false, call_list, NULL};

    facet_check_list_rules(check, &list);
}

/* A field and the bit of `valid` that says that it was measured. */
struct field {
    const char *name;
    uint64_t bit;
    size_t offset, bytes;
};

#define FIELD(bit, member)                                                                                             \
    {                                                                                                                  \
#member, FACET_DEVICE_HAS_##bit, offsetof(struct facet_device_info, member),                                   \
            sizeof(((struct facet_device_info *)NULL)->member)                                                         \
    }

static const struct field fields[] = {
    FIELD(MEMORY, memory_bytes),
    FIELD(MAX_ALLOC, max_alloc_bytes),
    FIELD(COMPUTE_UNITS, compute_units),
    FIELD(CLOCK, clock_mhz),
    FIELD(NUMA, numa_node),
    FIELD(PCI, pci_address),
    FIELD(MAX_PARTITIONS, max_partitions),
    FIELD(PEAK_RATE, peak_gflops),
    FIELD(MEMORY_BANDWIDTH, memory_bandwidth_mbps),
    FIELD(PCIE_LINK, pcie_generation),
    FIELD(PCIE_LINK, pcie_width),
    FIELD(MAX_WORKERS, max_workers),
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

static bool is_zero(const void *bytes, size_t count)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < count; i++)
        if (at[i])
            return false;
    return true;
}

/* A NUMA node 0 or no partition is a valid measurement; a memory of 0 bytes is not. */
static bool may_be_zero(const struct field *field)
{
    return (field->bit & (FACET_DEVICE_HAS_NUMA | FACET_DEVICE_HAS_MAX_PARTITIONS)) != 0;
}

static void check_fields(const struct facet_device_info *info, struct facet_check_tally *unmeasured,
                         struct facet_check_tally *measured)
{
    for (int i = 0; i < FIELDS; i++) {
        const struct field *field = &fields[i];
        bool zero = is_zero((const char *)info + field->offset, field->bytes);

        if (!(info->valid & field->bit) && !zero)
            facet_check_tally_miss(unmeasured,
                                   "expected: %s 0, as its bit in valid is clear\ngot: a value, in device %" PRIu32,
                                   field->name, info->index);
        if ((info->valid & field->bit) && zero && !may_be_zero(field))
            facet_check_tally_miss(measured, "expected: a %s, as its bit in valid is set\ngot: 0, in device %" PRIu32,
                                   field->name, info->index);
    }
    if ((info->valid & FACET_DEVICE_HAS_NUMA) && info->numa_node < 0)
        facet_check_tally_miss(measured, "expected: a NUMA node from 0\ngot: %" PRId32, info->numa_node);
    if ((info->valid & FACET_DEVICE_HAS_MAX_ALLOC) && (info->valid & FACET_DEVICE_HAS_MEMORY) &&
        info->max_alloc_bytes > info->memory_bytes)
        facet_check_tally_miss(measured, "expected: max_alloc_bytes within memory_bytes %" PRIu64 "\ngot: %" PRIu64,
                               info->memory_bytes, info->max_alloc_bytes);
}

static bool is_pci_address(const char *text)
{
    static const char shape[] = "hhhh:hh:hh.d";

    for (size_t i = 0; i < sizeof shape; i++) {
        if (shape[i] == 'h' && !strchr("0123456789abcdef", text[i] ? text[i] : ' '))
            return false;
        if (shape[i] == 'd' && (text[i] < '0' || text[i] > '7'))
            return false;
        if (shape[i] != 'h' && shape[i] != 'd' && text[i] != shape[i])
            return false;
    }
    return true;
}

static void check_texts(const struct facet_device_info *info, struct facet_check_tally *texts)
{
    const struct {
        const char *name, *text;
        size_t size;
        bool needed;
    } all[] = {
        {"uuid", info->uuid, sizeof info->uuid, true},
        {"name", info->name, sizeof info->name, true},
        {"vendor", info->vendor, sizeof info->vendor, false},
        {"driver_version", info->driver_version, sizeof info->driver_version, false},
        {"address", info->address, sizeof info->address, false},
        {"pci_address", info->pci_address, sizeof info->pci_address, false},
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!facet_check_is_text(all[i].text, all[i].size) || (all[i].needed && !all[i].text[0]))
            facet_check_tally_miss(
                texts, "expected: %s of at most %zu printable characters%s\ngot: another text, in device %" PRIu32,
                all[i].name, all[i].size - 1, all[i].needed ? ", not empty" : "", info->index);
    if (info->pci_address[0] && !is_pci_address(info->pci_address))
        facet_check_tally_miss(texts, "expected: a pci_address like 0000:01:00.0\ngot: '%.16s'", info->pci_address);
}

static bool is_earlier_text(const struct facet_check *check, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (strncmp(check->devices[i].uuid, check->devices[index].uuid, sizeof check->devices[i].uuid) == 0)
            return true;
    return false;
}

static void check_description(struct facet_check *check)
{
    enum { PLACE, TEXTS, UNIQUE, UNMEASURED, MEASURED, KIND, ASPECTS };
    struct facet_check_tally tallies[ASPECTS] = {
        [PLACE] = {.text = "device.list: each device says its place in the list"},
        [TEXTS] = {.text = "device.list: texts are printable and terminated"},
        [UNIQUE] = {.text = "device.list: uuids are unique"},
        [UNMEASURED] = {.text = "device.list: a field whose bit is clear is 0"},
        [MEASURED] = {.text = "device.list: a field whose bit is set has a possible value"},
        [KIND] = {.text = "device.list: kinds are known"},
    };

    if (check->device_count == 0) {
        facet_check_skip(check, "device.list: what devices say of themselves", "there is no device");
        return;
    }
    for (uint32_t i = 0; i < check->device_count; i++) {
        const struct facet_device_info *info = &check->devices[i];

        if (info->index != i)
            facet_check_tally_miss(&tallies[PLACE], "expected: index %" PRIu32 "\ngot: %" PRIu32, i, info->index);
        check_texts(info, &tallies[TEXTS]);
        if (is_earlier_text(check, i))
            facet_check_tally_miss(&tallies[UNIQUE],
                                   "expected: another uuid than those before\ngot: '%.63s' for device %" PRIu32,
                                   info->uuid, i);
        check_fields(info, &tallies[UNMEASURED], &tallies[MEASURED]);
        if (info->kind > FACET_DEVICE_ACCELERATOR)
            facet_check_tally_miss(&tallies[KIND], "expected: a kind of 0 to 4\ngot: %" PRIu32, info->kind);
    }
    facet_check_report_tallies(check, tallies, ASPECTS);
}

/* Compares uuids and names with those that another process saw before. */
static void check_identity(struct facet_check *check)
{
    struct facet_check_tally tally = {.text = "device.list: uuid and name are the same in another process"};

    if (check->device_count == 0)
        return;
    if (!check->earlier_devices || check->earlier_count != check->device_count)
        facet_check_tally_miss(&tally, "expected: %" PRIu32 " devices in another process\ngot: %" PRIu32,
                               check->device_count, check->earlier_count);
    for (uint32_t i = 0; i < check->device_count && i < check->earlier_count; i++) {
        const struct facet_device_info *now = &check->devices[i];
        const struct facet_check_identity *then = &check->earlier_devices[i];

        if (strncmp(now->uuid, then->uuid, sizeof now->uuid) != 0 ||
            strncmp(now->name, then->name, sizeof now->name) != 0)
            facet_check_tally_miss(&tally,
                                   "expected: '%.63s' ('%.63s') as device %" PRIu32 ", as another process saw\n"
                                   "got: '%.63s' ('%.63s')",
                                   then->uuid, then->name, i, now->uuid, now->name);
    }
    facet_check_report_tallies(check, &tally, 1);
}

static void compare_sizes(struct facet_check *check)
{
    struct facet_check_tally tally = {.text = "device.list: what a device has does not depend on what is in use"};
    const struct facet_check_list list = {"device.list", sizeof(struct facet_device_info), false, call_list, NULL};
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_device_info *all = facet_check_fetch(check, &list, &count);

    for (uint32_t i = 0; i < count && i < check->device_count; i++)
        if (all[i].memory_bytes != check->devices[i].memory_bytes ||
            all[i].compute_units != check->devices[i].compute_units)
            facet_check_tally_miss(&tally,
                                   "expected: %" PRIu64 " bytes and %" PRIu32 " units, as before\n"
                                   "got: %" PRIu64 " and %" PRIu32 ", of device %" PRIu32,
                                   check->devices[i].memory_bytes, check->devices[i].compute_units, all[i].memory_bytes,
                                   all[i].compute_units, i);
    facet_check_report_tallies(check, &tally, 1);
}

/* Compares the list before and after an allocation of device memory. */
static void check_stable_sizes(struct facet_check *check)
{
    uint64_t bytes = facet_check_info(check)->memory_bytes / 16, context = 0, address = 0;

    if (facet_check_context(check, FACET_CHECK_WORKER, &context))
        EXPECT_OK(check, "memory.alloc: some of a device's memory",
                  check->memory_ops.alloc(check->instance, context, bytes ? bytes : 1, &address, &check->error));
    compare_sizes(check);
    if (context)
        facet_check_drop_context(check, context);
}

static void check_sizes_when_idle(struct facet_check *check)
{
    if (!facet_check_any_claims(check, FACET_CAN_MEMORY) && check->device_count > 0)
        compare_sizes(check);
}

static void refuse_absent_device(struct facet_check *check)
{
    facet_check_absent_device(check, "device");
}

static void check_health(struct facet_check *check)
{
    const struct facet_device_ops *ops = &check->device_ops;
    uint32_t value = UINT32_MAX;

    if (!ops->health) {
        facet_check_skip(check, "device.health", "not offered");
        return;
    }
    for (uint32_t i = 0; i < check->device_count && i < 1; i++) {
        EXPECT_STATUS(check, "device.health: no place for the answer is an invalid argument", FACET_INVALID_ARGUMENT,
                      ops->health(check->instance, i, NULL, &check->error));
        EXPECT_OK(check, "device.health: tells", ops->health(check->instance, i, &value, &check->error));
        EXPECT_TRUE(check, "device.health: the answer is a known health", value <= FACET_HEALTH_FAILED,
                    "expected: a health of 0 to 3\ngot: %" PRIu32, value);
    }
}

/* The first line that is not "key=value"; NULL when all are. */
static const char *first_bad_line(const char *text)
{
    while (*text) {
        size_t key = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
        size_t line = strcspn(text, "\n");

        if (key == 0 || text[key] != '=' || text[line] != '\n')
            return text;
        for (size_t i = key; i < line; i++)
            if (text[i] < 0x20 || text[i] > 0x7e)
                return text;
        text += line + 1;
    }
    return NULL;
}

static void check_properties_text(struct facet_check *check, uint32_t size)
{
    const struct facet_device_ops *ops = &check->device_ops;
    FACET_CLEANUP_FREE char *text = malloc((size_t)size + 16);
    uint32_t got = 0;

    if (!text)
        _exit(EXIT_FAILURE);
    facet_check_poison(text, (size_t)size + 16);
    if (!EXPECT_OK(check, "device.properties: exact room is enough",
                   ops->properties(check->instance, 0, text, size, &got, &check->error)))
        return;
    EXPECT_TRUE(check, "device.properties: the size counts the terminator",
                got == size && strnlen(text, size) + 1 == size,
                "expected: %" PRIu32 " bytes with a terminator\ngot: %" PRIu32 " and a text of %zu", size, got,
                strnlen(text, size));
    text[size - 1] = '\0';
    const char *bad = first_bad_line(text);
    EXPECT_TRUE(check, "device.properties: are lines key=value", !bad,
                "expected: [a-z0-9_]+=printable text\ngot: '%.60s'", bad ? bad : "");
    if (size < 8)
        return;
    facet_check_begin(check, "device.properties: too little room writes no text");
    facet_check_poison(text, size - 1);
    enum facet_status status = ops->properties(check->instance, 0, text, size - 1, &got, &check->error);
    facet_check_judge(check, status == FACET_TOO_SMALL && got == size && facet_check_untouched(text, size - 1),
                      "expected: too_small, size %" PRIu32 ", and nothing written\ngot: %s, size %" PRIu32, size,
                      facet_status_name(status), got);
}

static void check_properties(struct facet_check *check)
{
    const struct facet_device_ops *ops = &check->device_ops;
    uint32_t size = 0;

    if (!ops->properties) {
        facet_check_skip(check, "device.properties", "not offered");
        return;
    }
    if (check->device_count == 0)
        return;
    enum facet_status status = ops->properties(check->instance, 0, NULL, 0, &size, &check->error);
    if (status == FACET_UNSUPPORTED) {
        facet_check_skip(check, "device.properties", "the device has none");
        return;
    }
    if (EXPECT_TRUE(check, "device.properties: no room at all says how much is needed",
                    status == FACET_TOO_SMALL && size > 0 && size < 1 << 20,
                    "expected: too_small and the text's size\ngot: %s and %" PRIu32, facet_status_name(status), size))
        check_properties_text(check, size);
    EXPECT_STATUS(check, "device.properties: no place for the size is an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->properties(check->instance, 0, NULL, 0, NULL, &check->error));
}

static enum facet_status call_events(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                     uint32_t capacity, uint32_t *ret_count)
{
    return check->device_ops.events(check->instance, *(const uint64_t *)subject, items, item_size, capacity, ret_count,
                                    &check->error);
}

/* Causes two events, if the device can be partitioned. */
static void create_and_destroy(struct facet_check *check)
{
    struct facet_partition_info made = {.size = sizeof made};
    const struct facet_partition_ops *ops = &check->partition_ops;
    uint32_t count = 0;

    if (!facet_check_claims(check, FACET_CAN_PARTITION))
        return;
    ops->templates(check->instance, check->device, NULL, sizeof(struct facet_partition_template), 0, &count, NULL);
    FACET_CLEANUP_FREE struct facet_partition_template *all = calloc(count ? count : 1, sizeof *all);
    for (uint32_t i = 0; all && i < count; i++)
        all[i].size = sizeof *all;
    if (!all || count == 0 ||
        ops->templates(check->instance, check->device, all, sizeof *all, count, &count, NULL) != FACET_OK)
        return;
    if (EXPECT_OK(check, "device.events: a partition is created to have an event of",
                  ops->create(check->instance, check->device, all[0].id, FACET_PLACEMENT_ANY, &made, &check->error)))
        EXPECT_OK(check, "device.events: and destroyed",
                  ops->destroy(check->instance, check->device, made.uuid, &check->error));
}

static void check_events(struct facet_check *check, const struct facet_event *events, uint32_t count)
{
    enum { SEQUENCE, VALID, ASPECTS };
    struct facet_check_tally tallies[ASPECTS] = {
        [SEQUENCE] = {.text = "device.events: sequence numbers rise"},
        [VALID] = {.text = "device.events: kind, device, time and texts are valid"},
    };
    uint64_t last = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct facet_event *event = &events[i];

        if (event->sequence <= last)
            facet_check_tally_miss(&tallies[SEQUENCE], "expected: a sequence above %" PRIu64 "\ngot: %" PRIu64, last,
                                   event->sequence);
        last = event->sequence;
        if (event->kind < FACET_EVENT_HEALTH || event->kind > FACET_EVENT_VENDOR_ERROR || event->timestamp_ns == 0 ||
            (event->kind != FACET_EVENT_HOTPLUG && event->device >= check->device_count) ||
            !facet_check_is_text(event->uuid, sizeof event->uuid) ||
            !facet_check_is_text(event->message, sizeof event->message))
            facet_check_tally_miss(&tallies[VALID],
                                   "expected: a known kind, a device of the list, a time, printable texts\n"
                                   "got: kind %" PRIu32 ", device %" PRIu32 ", time %" PRIu64 " in event %" PRIu64,
                                   event->kind, event->device, event->timestamp_ns, event->sequence);
    }
    facet_check_report_tallies(check, tallies, ASPECTS);
}

/* Whether the events include a partition created and destroyed, in this order. */
static bool has_partition_event(const struct facet_event *events, uint32_t count, uint32_t device)
{
    bool created = false, destroyed = false;

    for (uint32_t i = 0; i < count; i++) {
        if (events[i].kind != FACET_EVENT_PARTITION || events[i].device != device)
            continue;
        created = created || events[i].value == 1;
        destroyed = destroyed || (created && events[i].value == 0);
    }
    return created && destroyed;
}

static void check_event_list(struct facet_check *check)
{
    uint64_t after = 0;
    uint32_t count = 0, later = 0;
    struct facet_check_list list = {"device.events", sizeof(struct facet_event), false, call_events, &after};

    create_and_destroy(check);
    FACET_CLEANUP_FREE struct facet_event *all = facet_check_fetch(check, &list, &count);
    if (!all)
        return;
    check_events(check, all, count);
    if (facet_check_claims(check, FACET_CAN_PARTITION))
        EXPECT_TRUE(check, "device.events: creating and destroying a partition is reported",
                    has_partition_event(all, count, check->device),
                    "expected: events of kind 3, value 1 and then 0\ngot: %" PRIu32 " events, none or one such", count);
    facet_check_list_rules(check, &list);
    if (count == 0)
        return;
    after = all[count - 1].sequence;
    FACET_CLEANUP_FREE struct facet_event *none = facet_check_fetch(check, &list, &later);
    EXPECT_NUMBER(check, "device.events: nothing comes after the last", 0, none ? later : UINT32_MAX);
    after = all[0].sequence;
    FACET_CLEANUP_FREE struct facet_event *rest = facet_check_fetch(check, &list, &later);
    EXPECT_NUMBER(check, "device.events: reading forgets nothing, and `after` is honoured", count - 1,
                  rest ? later : UINT32_MAX);
}

static const struct facet_check_case cases[] = {{check_list, 0},
                                                {check_description, 0},
                                                {check_identity, 0},
                                                {check_sizes_when_idle, 0},
                                                {check_stable_sizes, FACET_CAN_MEMORY},
                                                {refuse_absent_device, 0},
                                                {check_health, 0},
                                                {check_properties, 0},
                                                {check_event_list, FACET_CAN_EVENTS},
                                                {NULL, 0}};

const struct facet_check_group facet_check_device = {
    .name = "device", .about = "devices, health, properties, events", .cases = cases, .opened_before = true};
