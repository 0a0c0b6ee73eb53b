/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines of the sysfs model, shared by the tests of transactions.
 *
 * Owns: a machine with a GPU of two functions in group 17, another GPU in group 18 and a screen's GPU in group 1.
 * Never: removes the machine; each test does.
 */
#ifndef TEST_PASSTHROUGH_MACHINE_H
#define TEST_PASSTHROUGH_MACHINE_H

#include "../../../scratch.h"
#include "sysfs_model.h"

#define GPU    "0000:01:00.0"
#define SOUND  "0000:01:00.1"
#define SECOND "0000:02:00.0"
#define SCREEN "0000:00:02.0"

struct function {
    const char *address, *vendor, *device, *class, *driver;
    int group;
};

/* Makes a configuration space of zeros: the function answers, and has no capability. */
static inline void model_zeros(int at, const char *path, off_t size)
{
    int fd = openat(at, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    if (fd < 0 || ftruncate(fd, size) < 0)
        abort();
    close(fd);
}

static inline void machine_add(struct model *model, const struct function *function)
{
    char path[128];

    model_folder(model->root, model_device(function->address, "power"));
    model_text(model->root, model_device(function->address, "vendor"), function->vendor);
    model_text(model->root, model_device(function->address, "device"), function->device);
    model_text(model->root, model_device(function->address, "class"), function->class);
    model_text(model->root, model_device(function->address, "subsystem_vendor"), "0x1043\n");
    model_text(model->root, model_device(function->address, "subsystem_device"), "0x8888\n");
    model_text(model->root, model_device(function->address, "revision"), "0xa1\n");
    model_text(model->root, model_device(function->address, "driver_override"), "(null)\n");
    model_text(model->root, model_device(function->address, "power/control"), "auto\n");
    model_text(model->root, model_device(function->address, "power_state"), "D0\n");
    model_text(model->root, model_device(function->address, "reset"), "");
    model_text(model->root, model_device(function->address, "reset_method"), "flr\n");
    model_text(model->root, model_device(function->address, "natural"), function->driver);
    model_text(model->root, model_device(function->address, "resource"), "");
    model_zeros(model->root, model_device(function->address, "config"), 64);
    snprintf(path, sizeof path, "sys/kernel/iommu_groups/%d/devices", function->group);
    model_folder(model->root, path);
    snprintf(path, sizeof path, "../../../../kernel/iommu_groups/%d", function->group);
    if (symlinkat(path, model->root, model_device(function->address, "iommu_group")) < 0)
        abort();
    snprintf(path, sizeof path, "sys/bus/pci/drivers/%s", function->driver);
    model_folder(model->root, path);
    if (model_attach(model, function->address, function->driver) != 0)
        abort();
}

/* Removes a function, as if it were pulled out. */
static inline void machine_remove(const struct model *model, const char *address)
{
    char path[160];

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s", model->path, address);
    nftw(path, model_drop, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void machine_make(struct model *model)
{
    static const struct function functions[] = {
        {SCREEN, "0x8086\n", "0x4680\n", "0x030000\n", "i915", 1},
        {GPU, "0x10de\n", "0x2204\n", "0x030000\n", "nvidia", 17},
        {SOUND, "0x10de\n", "0x1aef\n", "0x040300\n", "snd_hda_intel", 17},
        {SECOND, "0x1002\n", "0x74a1\n", "0x120000\n", "amdgpu", 18},
    };
    static const char *const folders[] = {
        "proc/1/fd", "proc/sys/kernel/random", "sys/class/iommu/dmar0", "dev/vfio", "sys/bus/pci/drivers/vfio-pci",
        "state",     "model/modules/vfio-pci"};

    *model = (struct model){.root = -1};
    model->root = scratch_folder("pci", model->path, sizeof model->path);
    if (model->root < 0)
        abort();
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        model_folder(model->root, folders[i]);
    model->state = openat(model->root, "state", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    model_text(model->root, "proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n");
    model_text(model->root, "proc/cmdline", "quiet\n");
    model_text(model->root, "proc/interrupts", " 24: 1 IR-PCI-MSI 0 nvme\n");
    model_text(model->root, "proc/iomem", "");
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        machine_add(model, &functions[i]);
}

static inline void machine_drop(struct model *model)
{
    close(model->state);
    if (!scratch_remove(model->path))
        abort();
    close(model->root);
}

/* Writes DRIVER/OVERRIDE/POWER of each function: "nvidia//auto snd_hda_intel//auto amdgpu//auto". */
static inline void machine_text(const struct model *model, char *text, size_t size)
{
    static const char *const addresses[] = {GPU, SOUND, SECOND};
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < 3; i++) {
        char driver[64], override[64], power[16];

        model_driver_of(model, addresses[i], driver, sizeof driver);
        model_override_of(model, addresses[i], override, sizeof override);
        model_get(model->root, model_device(addresses[i], "power/control"), power, sizeof power);
        used += (size_t)snprintf(text + used, size - used, "%s%s/%s/%s", i ? " " : "", driver, override, power);
    }
}

#define BOUND_TO_HOST "nvidia//auto snd_hda_intel//auto amdgpu//auto"
#define BOUND_TO_VFIO "vfio-pci/vfio-pci/on vfio-pci/vfio-pci/on amdgpu//auto"

static inline bool machine_is(const struct model *model, const char *expected)
{
    char text[256];

    machine_text(model, text, sizeof text);
    return strcmp(text, expected) == 0;
}

/* Counts the journals, called for each one. */
static inline bool machine_count(void *context, const char *name, struct journal *journal,
                                 const struct facet_error *failure)
{
    ++*(unsigned *)context;
    return true;
}

static inline unsigned machine_journals(const struct model *model)
{
    struct bind_host host = {.ops = &bind_host_real, .root = model->root, .state = model->state};
    unsigned count = 0;

    if (journal_each(&host, machine_count, &count, NULL) != FACET_OK)
        abort();
    return count;
}

/* ---- managers ---- */

static inline void machine_arm(struct model *model, enum model_fault fault, unsigned at)
{
    model->fault = fault;
    model->fault_at = at;
    model->calls = 0;
    model->keeps_failing = false;
    model->only_writes = false;
}

static inline struct facet_passthrough *machine_open(struct model *model)
{
    struct facet_passthrough_config config = {
        .size = sizeof config, .root = model->root, .state = model->state, .lock_deadline_ns = 1};
    struct facet_passthrough *manager = NULL;

    if (bind_open(&config, &model_ops, model, &manager, NULL) != FACET_OK)
        abort();
    return manager;
}

static inline enum facet_status machine_plan(struct facet_passthrough *manager, const char *address, uint32_t flags,
                                             struct facet_passthrough_plan **ret_plan, struct facet_error *error)
{
    struct facet_pci_address parsed;
    struct facet_passthrough_wish wish = {
        .size = sizeof wish, .flags = FACET_PASSTHROUGH_WHOLE_GROUP, .functions = &parsed, .count = 1};
    struct facet_passthrough_request request = {.size = sizeof request, .flags = flags, .wish = &wish};

    facet_pci_address_parse(address, &parsed, NULL);
    return facet_passthrough_plan_bind(manager, &request, ret_plan, error);
}

/* Makes a plan and carries it out; the report may be NULL. */
static inline enum facet_status machine_bind(struct facet_passthrough *manager, const char *address,
                                             struct facet_passthrough_report *report, struct facet_error *error)
{
    struct facet_passthrough_plan *plan = NULL;
    enum facet_status status = machine_plan(manager, address, FACET_PASSTHROUGH_RESET, &plan, error);

    if (!status)
        status = facet_passthrough_bind(manager, plan, report, error);
    facet_passthrough_plan_destroy(plan);
    return status;
}

static inline enum facet_status machine_unbind(struct facet_passthrough *manager, const char *address,
                                               struct facet_passthrough_report *report, struct facet_error *error)
{
    struct facet_pci_address parsed;
    struct facet_passthrough_plan *plan = NULL;

    facet_pci_address_parse(address, &parsed, NULL);
    enum facet_status status = facet_passthrough_plan_unbind(manager, &parsed, 1, &plan, error);
    if (!status)
        status = facet_passthrough_unbind(manager, plan, report, error);
    facet_passthrough_plan_destroy(plan);
    return status;
}

static inline bool machine_has_note(const struct facet_passthrough_report *report,
                                    enum facet_passthrough_note_kind kind)
{
    for (uint32_t i = 0; i < report->note_count; i++)
        if (report->notes[i].kind == kind)
            return true;
    return false;
}

#define REPORT(name) struct facet_passthrough_report name = {.size = sizeof name}

#endif
