/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: finding a profile, and reading the parts of its document other than products and topology.
 * Never: accepts a document with a mistake.
 */
#include "machine.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider_kit.h"

static const char *const machine_members[] = {"format",   "version", "name",  "description", "modelled",
                                              "products", "devices", "nodes", "links",       NULL};
static const char *const device_members[] = {"product", "numa_node", "pci_address", NULL};

static const struct sim_choice formats[] = {{"facet-sim-profile", 1}, {NULL, 0}};
static const struct sim_choice modelled_names[] = {{"links.bandwidth_mbps", 1}, {"links.latency_ns", 2}, {NULL, 0}};

static void read_head(const struct sim_json *root, struct sim_machine *machine)
{
    struct sim_json format = sim_json_member(root, "format"), version = sim_json_member(root, "version");
    struct sim_json name = sim_json_member(root, "name"), description = sim_json_member(root, "description");
    struct sim_json modelled = sim_json_member(root, "modelled");
    size_t count = sim_json_count(&modelled, 0, 2);

    sim_json_choice(&format, formats);
    sim_json_integer(&version, 1, 1);
    snprintf(machine->name, sizeof machine->name, "%s", sim_json_match(&name, SIM_NAME_PATTERN));
    sim_json_text(&description, 400);
    for (size_t i = 0; i < count; i++) {
        struct sim_json item = sim_json_item(&modelled, i);

        sim_json_choice(&item, modelled_names);
    }
}

static void read_products(const struct sim_json *at, struct sim_machine *machine)
{
    size_t count = json_object_size(at->value);
    const char *id;
    json_t *value;

    if (!json_is_object(at->value) || count < 1 || count > SIM_MAX_DEVICES)
        sim_json_refuse(at, "an object of 1 to %d products", SIM_MAX_DEVICES);
    else if (!(machine->products = calloc(count, sizeof *machine->products)))
        sim_json_refuse(at, "memory for its products");
    if (!machine->products)
        return;
    json_object_foreach (at->value, id, value) {
        struct sim_json product = sim_json_member(at, id);

        if (strlen(id) >= sizeof machine->products->id)
            sim_json_refuse(&product, "a name of at most %zu characters", sizeof machine->products->id - 1);
        sim_product_read(&product, id, &machine->products[machine->product_count++]);
    }
}

static const struct sim_product *product_named(const struct sim_machine *machine, const char *id)
{
    for (uint32_t i = 0; i < machine->product_count; i++)
        if (strcmp(machine->products[i].id, id) == 0)
            return &machine->products[i];
    return NULL;
}

static void set_uuid(const struct sim_machine *machine, struct facet_device_info *info)
{
    char text[96];

    snprintf(text, sizeof text, "facet sim %s %" PRIu32, machine->name, info->index);
    facet_kit_uuid_of(text, info->uuid);
    snprintf(info->address, sizeof info->address, "%s", info->uuid);
}

static void read_device(const struct sim_json *at, struct sim_machine *machine, struct sim_device *device)
{
    sim_json_only(at, device_members);
    struct sim_json product = sim_json_member(at, "product");
    device->product = product_named(machine, sim_json_text(&product, 64));
    if (!device->product) {
        sim_json_refuse(&product, "the name of one of \"products\"");
        return;
    }
    device->info = device->product->info;
    device->info.index = device->number = machine->device_count;
    set_uuid(machine, &device->info);
    if (sim_json_has(at, "numa_node")) {
        struct sim_json numa = sim_json_member(at, "numa_node");

        device->info.valid |= FACET_DEVICE_HAS_NUMA;
        device->info.numa_node = (int32_t)sim_json_integer(&numa, 0, 1023);
    }
    if (sim_json_has(at, "pci_address")) {
        struct sim_json pci = sim_json_member(at, "pci_address");

        device->info.valid |= FACET_DEVICE_HAS_PCI;
        FACET_KIT_TEXT(device->info.pci_address, sim_json_match(&pci, SIM_PCI_PATTERN));
    }
}

static void read_devices(const struct sim_json *at, struct sim_machine *machine)
{
    size_t count = sim_json_count(at, 1, SIM_MAX_DEVICES);

    machine->devices = calloc(count + 1, sizeof *machine->devices);
    if (!machine->devices) {
        sim_json_refuse(at, "memory for its devices");
        return;
    }
    for (size_t i = 0; i < count && at->document->status == FACET_OK; i++) {
        struct sim_json item = sim_json_item(at, i);

        read_device(&item, machine, &machine->devices[i]);
        machine->device_total = ++machine->device_count;
    }
}

static void read_machine(const struct sim_json *root, struct sim_machine *machine)
{
    sim_json_only(root, machine_members);
    read_head(root, machine);
    struct sim_json products = sim_json_member(root, "products"), devices = sim_json_member(root, "devices");
    read_products(&products, machine);
    if (root->document->status == FACET_OK)
        read_devices(&devices, machine);
    if (root->document->status == FACET_OK)
        sim_topology_read(root, machine);
}

enum facet_status sim_machine_parse(const char *file, const char *text, size_t length, struct sim_machine **ret_machine,
                                    struct facet_error *error)
{
    struct sim_document document = {.file = file, .error = error};
    struct sim_json root = {.document = &document};
    struct sim_machine *machine;
    enum facet_status status = sim_json_parse(file, text, length, &root.value, error);

    if (status != FACET_OK)
        return status;
    machine = calloc(1, sizeof *machine);
    if (machine) {
        snprintf(machine->file, sizeof machine->file, "%s", file);
        read_machine(&root, machine);
    } else {
        document.status = facet_kit_fail(error, FACET_NO_MEMORY, "no memory for the machine of %s", file);
    }
    json_decref(root.value);
    if (document.status == FACET_OK)
        *ret_machine = machine;
    else
        sim_machine_close(machine);
    return document.status;
}

static enum facet_status machine_load(const char *file, struct sim_machine **ret_machine, struct facet_error *error)
{
    char *text;
    size_t length;
    enum facet_status status = sim_read_file(file, &text, &length, error);

    if (status != FACET_OK)
        return status;
    status = sim_machine_parse(file, text, length, ret_machine, error);
    free(text);
    return status;
}

static int is_profile(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');

    return end && end > entry->d_name && strcmp(end, ".json") == 0;
}

static void free_entries(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

/* Whether the folder has profiles: a build folder has an empty one of the same name. */
static bool has_profiles(const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_profile, NULL);

    free_entries(entries, count);
    return count > 0;
}

/*
 * The folder of shipped profiles. Of an installed provider it lies beside this object; in a build tree, below one of
 * the object's parent folders.
 */
static void find_folder(char *folder, size_t size)
{
    const char *below = "sim-profiles", *end = NULL;
    Dl_info about;

    if (dladdr(&machine_members, &about) && about.dli_fname)
        end = strrchr(about.dli_fname, '/');
    while (end) {
        int length = (int)(end - about.dli_fname);

        if (snprintf(folder, size, "%.*s/%s", length, about.dli_fname, below) < (int)size && has_profiles(folder))
            return;
        if (strcmp(below, "sim-profiles") != 0)
            end = memrchr(about.dli_fname, '/', (size_t)length);
        below = "providers/sim/profiles";
    }
    snprintf(folder, size, "%s/sim-profiles", FACET_PLUGIN_DIR);
}

/* Lists the names of shipped profiles ("a100-40gb, h100"), or says that there are none. */
static void list_shipped(const char *folder, char *list, size_t size)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_profile, alphasort);
    size_t used = 0;

    snprintf(list, size, "none is in %.160s", folder);
    for (int i = 0; i < count; i++) {
        int length = (int)(strrchr(entries[i]->d_name, '.') - entries[i]->d_name);

        if (used < size)
            used += (size_t)snprintf(list + used, size - used, "%s%.*s", i ? ", " : "", length, entries[i]->d_name);
    }
    free_entries(entries, count);
}

enum facet_status sim_machine_open(const char *profile, struct sim_machine **ret_machine, struct facet_error *error)
{
    char folder[400], file[512], shipped[200];

    if (!profile || !*profile) {
        struct sim_machine *machine = calloc(1, sizeof *machine);

        if (!machine)
            return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a machine");
        snprintf(machine->name, sizeof machine->name, "none");
        *ret_machine = machine;
        return FACET_OK;
    }
    if (strchr(profile, '/'))
        return machine_load(profile, ret_machine, error);
    find_folder(folder, sizeof folder);
    if (snprintf(file, sizeof file, "%s/%s.json", folder, profile) < (int)sizeof file && access(file, R_OK) == 0)
        return machine_load(file, ret_machine, error);
    list_shipped(folder, shipped, sizeof shipped);
    return facet_kit_fail(error, FACET_NOT_FOUND,
                          "FACET_SIM_PROFILE %.60s: expected the name of a shipped profile (%s) or a path with a slash",
                          profile, shipped);
}

void sim_machine_close(struct sim_machine *machine)
{
    if (!machine)
        return;
    free(machine->products);
    free(machine->devices);
    free(machine->nodes);
    free(machine->links);
    free(machine->visible);
    free(machine);
}

uint32_t sim_machine_index(const struct sim_machine *machine, uint32_t number)
{
    for (uint32_t i = 0; i < machine->device_total; i++)
        if (machine->devices[i].number == number)
            return i;
    return UINT32_MAX;
}

enum facet_status sim_machine_template(const struct sim_machine *machine, uint32_t device, const char *id,
                                       uint32_t *ret_template, struct facet_error *error)
{
    const struct sim_partitioning *partitioning = &machine->devices[device].product->partitioning;

    for (uint32_t i = 0; i < partitioning->template_count; i++) {
        if (strcmp(partitioning->templates[i].info.id, id) == 0) {
            *ret_template = i;
            return FACET_OK;
        }
    }
    return facet_kit_fail(error, FACET_NOT_FOUND, "template_id %.40s: expected one of the templates of device %" PRIu32,
                          id, device);
}
