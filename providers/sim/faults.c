/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the script of faults, and the faults in effect.
 * Never: invents a fault: each is in the script, with its model time.
 *
 * A script: {"faults": [{"at_ns": 5000, "device": 0, "kind": "lost"}, ...]}. After `at_ns`, `crash` and `block` hit the
 * next operation on the device, or the next one that "operation" names ("partition.create").
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"
#include "provider_kit.h"

#define FAULTS_MAX 1024

/* The operations that a crash or block can wait for: those that work on one device. */
#define OPERATION_PATTERN                                                                                              \
    "^(device\\.(health|properties)|partition\\.(templates|placements|create|list|destroy)|"                           \
    "limit\\.(set_memory|set_compute|get|list|clear)|metrics\\.(device|processes|links)|container\\.items|"            \
    "memory\\.(create_context|destroy_context|info|alloc|free|reserve|release|create_pages|destroy_pages|map|unmap|"   \
    "write|read|copy|fill)|"                                                                                           \
    "execution\\.(load|unload|create_stream|destroy_stream|launch|query|cancel)|"                                      \
    "snapshot\\.(snapshot|resume))$"

enum fault_kind {
    FAULT_LOST = 1,
    FAULT_HANG,
    FAULT_ECC,
    FAULT_ECC_CORRECTED,
    FAULT_LINK_DOWN,
    FAULT_LINK_UP,
    FAULT_SLOW,
    FAULT_RECOVER,
    FAULT_CRASH,
    FAULT_BLOCK,
};

struct sim_fault {
    uint64_t at_ns;
    uint32_t kind; /* enum fault_kind */
    uint32_t device;
    uint32_t link;
    uint32_t factor_milli;
    uint64_t count;
    char operation[32]; /* "": any */
};

/* The faults in effect on one device. */
struct condition {
    bool lost, hangs, broken_memory;
    uint32_t slowdown_milli;
    uint64_t ecc_corrected, ecc_uncorrected;
    const struct sim_fault *trap; /* the crash or block that waits for an operation */
};

struct sim_faults {
    uint32_t count, done; /* in the script, which is sorted by time */
    struct sim_fault *script;
    struct condition *devices;
    bool *links_down;
};

static const struct sim_choice kinds[] = {{"lost", FAULT_LOST},
                                          {"hang", FAULT_HANG},
                                          {"ecc", FAULT_ECC},
                                          {"ecc_corrected", FAULT_ECC_CORRECTED},
                                          {"link_down", FAULT_LINK_DOWN},
                                          {"link_up", FAULT_LINK_UP},
                                          {"slow", FAULT_SLOW},
                                          {"recover", FAULT_RECOVER},
                                          {"crash", FAULT_CRASH},
                                          {"block", FAULT_BLOCK},
                                          {NULL, 0}};

/* The one member that each kind of fault has besides the common members; any other member is refused. */
static const char *const members_of[] = {[FAULT_LOST] = NULL,           [FAULT_HANG] = NULL,
                                         [FAULT_ECC] = "count",         [FAULT_ECC_CORRECTED] = "count",
                                         [FAULT_LINK_DOWN] = "link",    [FAULT_LINK_UP] = "link",
                                         [FAULT_SLOW] = "factor_milli", [FAULT_RECOVER] = NULL,
                                         [FAULT_CRASH] = "operation",   [FAULT_BLOCK] = "operation"};

static void read_link(const struct sim_json *at, const struct sim_machine *machine, struct sim_fault *fault)
{
    struct sim_json link = sim_json_member(at, "link");

    if (machine->link_count == 0) {
        sim_json_refuse(&link, "no fault of a link: the machine has none");
        return;
    }
    fault->link = (uint32_t)sim_json_integer(&link, 0, machine->link_count - 1);
    if (!sim_link_touches(&machine->links[fault->link], fault->device))
        sim_json_refuse(&link, "a link that ends at device %" PRIu32, fault->device);
}

/* The members that only some kinds have; count and operation may be left out. */
static void read_details(const struct sim_json *at, const struct sim_machine *machine, struct sim_fault *fault)
{
    fault->count = 1;
    if (fault->kind == FAULT_LINK_DOWN || fault->kind == FAULT_LINK_UP)
        read_link(at, machine, fault);
    if (fault->kind == FAULT_SLOW) {
        struct sim_json factor = sim_json_member(at, "factor_milli");

        fault->factor_milli = (uint32_t)sim_json_integer(&factor, 1001, 1000000);
    }
    if (sim_json_has(at, "count")) {
        struct sim_json count = sim_json_member(at, "count");

        fault->count = (uint64_t)sim_json_integer(&count, 1, 1000000000);
    }
    if (sim_json_has(at, "operation")) {
        struct sim_json operation = sim_json_member(at, "operation");

        FACET_KIT_TEXT(fault->operation, sim_json_match(&operation, OPERATION_PATTERN));
    }
}

static void read_fault(const struct sim_json *at, const struct sim_machine *machine, struct sim_fault *fault)
{
    const char *members[] = {"at_ns", "device", "kind", NULL, NULL};

    if (machine->device_count == 0) {
        sim_json_refuse(at, "no faults: there are no devices (FACET_SIM_PROFILE)");
        return;
    }
    struct sim_json time = sim_json_member(at, "at_ns"), device = sim_json_member(at, "device");
    struct sim_json kind = sim_json_member(at, "kind");
    fault->at_ns = (uint64_t)sim_json_integer(&time, 0, INT64_MAX);
    fault->device = (uint32_t)sim_json_integer(&device, 0, machine->device_count - 1);
    fault->kind = sim_json_choice(&kind, kinds);
    members[3] = members_of[fault->kind];
    sim_json_only(at, members);
    if (at->document->status == FACET_OK)
        read_details(at, machine, fault);
}

/* Sorts by time; faults of one time keep the script's order. */
static void sort_script(struct sim_fault *script, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct sim_fault fault = script[i];
        uint32_t at = i;

        for (; at > 0 && script[at - 1].at_ns > fault.at_ns; at--)
            script[at] = script[at - 1];
        script[at] = fault;
    }
}

static struct sim_faults *create_faults(const struct sim_machine *machine, size_t count)
{
    struct sim_faults *faults = calloc(1, sizeof *faults);

    if (!faults)
        return NULL;
    faults->script = calloc(count + 1, sizeof *faults->script);
    faults->devices = calloc(machine->device_count + 1, sizeof *faults->devices);
    faults->links_down = calloc(machine->link_count + 1, sizeof *faults->links_down);
    if (faults->script && faults->devices && faults->links_down) {
        for (uint32_t i = 0; i < machine->device_count; i++)
            faults->devices[i].slowdown_milli = 1000;
        return faults;
    }
    sim_faults_close(faults);
    return NULL;
}

/* NULL: no memory. A mistake in the script is kept in the document's `status`. */
static struct sim_faults *read_script(const struct sim_json *root, const struct sim_machine *machine)
{
    static const char *const members[] = {"faults", NULL};
    struct sim_json list;
    struct sim_faults *faults;
    size_t count;

    sim_json_only(root, members);
    list = sim_json_member(root, "faults");
    count = sim_json_count(&list, 0, FAULTS_MAX);
    faults = create_faults(machine, count);
    for (; faults && faults->count < count && root->document->status == FACET_OK; faults->count++) {
        struct sim_json item = sim_json_item(&list, faults->count);

        read_fault(&item, machine, &faults->script[faults->count]);
    }
    if (faults)
        sort_script(faults->script, faults->count);
    return faults;
}

enum facet_status sim_faults_parse(const char *file, const char *text, size_t length, const struct sim_machine *machine,
                                   struct sim_faults **ret_faults, struct facet_error *error)
{
    struct sim_document document = {.file = file, .error = error};
    struct sim_json root = {.document = &document};
    enum facet_status status = sim_json_parse(file, text, length, &root.value, error);
    struct sim_faults *faults;

    if (status != FACET_OK)
        return status;
    faults = read_script(&root, machine);
    json_decref(root.value);
    if (!faults)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for the faults of %s", file);
    if (document.status == FACET_OK)
        *ret_faults = faults;
    else
        sim_faults_close(faults);
    return document.status;
}

enum facet_status sim_faults_open(const char *file, const struct sim_machine *machine, struct sim_faults **ret_faults,
                                  struct facet_error *error)
{
    char *text;
    size_t length;
    enum facet_status status;

    if (!file || !*file) {
        *ret_faults = create_faults(machine, 0);
        return *ret_faults ? FACET_OK : facet_kit_fail(error, FACET_NO_MEMORY, "no memory for faults");
    }
    status = sim_read_file(file, &text, &length, error);
    if (status != FACET_OK)
        return status;
    status = sim_faults_parse(file, text, length, machine, ret_faults, error);
    free(text);
    return status;
}

void sim_faults_close(struct sim_faults *faults)
{
    if (!faults)
        return;
    free(faults->script);
    free(faults->devices);
    free(faults->links_down);
    free(faults);
}

uint64_t sim_faults_next(const struct facet_provider_instance *instance)
{
    const struct sim_faults *faults = instance->faults;

    return faults->done < faults->count ? faults->script[faults->done].at_ns : UINT64_MAX;
}

bool sim_fault_lost(const struct facet_provider_instance *instance, uint32_t device)
{
    return instance->faults->devices[device].lost;
}

bool sim_fault_link_down(const struct facet_provider_instance *instance, uint32_t link)
{
    return instance->faults->links_down[link];
}

uint32_t sim_fault_slowdown_milli(const struct facet_provider_instance *instance, uint32_t device)
{
    const struct condition *condition = &instance->faults->devices[device];

    return condition->hangs ? SIM_HANGS : condition->slowdown_milli;
}

void sim_fault_ecc(const struct facet_provider_instance *instance, uint32_t device, uint64_t *ret_corrected,
                   uint64_t *ret_uncorrected)
{
    *ret_corrected = instance->faults->devices[device].ecc_corrected;
    *ret_uncorrected = instance->faults->devices[device].ecc_uncorrected;
}

static bool has_link_down(const struct facet_provider_instance *instance, uint32_t device)
{
    const struct sim_machine *machine = instance->machine;

    for (uint32_t i = 0; i < machine->link_count; i++)
        if (instance->faults->links_down[i] && sim_link_touches(&machine->links[i], device))
            return true;
    return false;
}

enum facet_health sim_fault_health(const struct facet_provider_instance *instance, uint32_t device)
{
    const struct condition *condition = &instance->faults->devices[device];

    if (condition->lost || condition->hangs)
        return FACET_HEALTH_FAILED;
    if (condition->broken_memory || condition->slowdown_milli != 1000 || has_link_down(instance, device))
        return FACET_HEALTH_DEGRADED;
    return FACET_HEALTH_OK;
}

static void send_event(struct facet_provider_instance *instance, const struct sim_fault *fault, uint32_t kind,
                       uint64_t value, const char *message)
{
    sim_event(instance, kind, fault->device, value, fault->link, sim_device_info(instance, fault->device)->uuid,
              message);
}

/* A trap waits in the condition; other faults take effect here. */
static void apply_fault(struct facet_provider_instance *instance, const struct sim_fault *fault)
{
    struct condition *condition = &instance->faults->devices[fault->device];

    switch ((enum fault_kind)fault->kind) {
    case FAULT_LOST:
        condition->lost = true;
        sim_engine_lose(instance, fault->device);
        break;
    case FAULT_HANG:
        condition->hangs = true;
        break;
    case FAULT_ECC:
        condition->broken_memory = true;
        condition->ecc_uncorrected += fault->count;
        send_event(instance, fault, FACET_EVENT_ECC, condition->ecc_uncorrected,
                   "uncorrected memory errors (simulated)");
        break;
    case FAULT_ECC_CORRECTED:
        condition->ecc_corrected += fault->count;
        break;
    case FAULT_LINK_DOWN:
    case FAULT_LINK_UP:
        instance->faults->links_down[fault->link] = fault->kind == FAULT_LINK_DOWN;
        send_event(instance, fault, FACET_EVENT_LINK, fault->kind == FAULT_LINK_UP, "link changed (simulated)");
        break;
    case FAULT_SLOW:
        condition->slowdown_milli = fault->factor_milli;
        break;
    case FAULT_RECOVER: /* error counters keep their values, and links stay down until a link_up */
        condition->lost = condition->hangs = condition->broken_memory = false;
        condition->slowdown_milli = 1000;
        condition->trap = NULL;
        break;
    case FAULT_CRASH:
    case FAULT_BLOCK:
        condition->trap = fault;
        break;
    }
}

bool sim_faults_apply(struct facet_provider_instance *instance)
{
    static const char *const messages[] = {
        [FACET_HEALTH_OK] = "healthy again (simulated)",
        [FACET_HEALTH_DEGRADED] = "degraded by a fault (simulated)",
        [FACET_HEALTH_FAILED] = "failed by a fault (simulated)",
    };
    struct sim_faults *faults = instance->faults;
    uint64_t now_ns = sim_clock_now(instance);
    uint32_t before = faults->done;

    while (faults->done < faults->count && faults->script[faults->done].at_ns <= now_ns) {
        const struct sim_fault *fault = &faults->script[faults->done++];
        enum facet_health old_health = sim_fault_health(instance, fault->device), new_health;

        sim_engine_advance(instance, fault->at_ns); /* completes the launches that were due by then */
        apply_fault(instance, fault);
        new_health = sim_fault_health(instance, fault->device);
        if (new_health != old_health)
            send_event(instance, fault, FACET_EVENT_HEALTH, new_health, messages[new_health]);
    }
    if (faults->done != before)
        sim_clock_changed(instance);
    return faults->done != before;
}

void sim_fault_hit_operation(struct facet_provider_instance *instance, uint32_t device, const char *operation)
{
    const struct sim_fault *trap;

    sim_faults_apply(instance);
    if (device >= instance->machine->device_count)
        return;
    trap = instance->faults->devices[device].trap;
    if (!trap || (trap->operation[0] && strcmp(trap->operation, operation) != 0))
        return;
    if (trap->kind == FAULT_CRASH) {
        signal(SIGSEGV,
               SIG_DFL); /* the script asks for a crash: the process ends even if its host has installed a handler */
        raise(SIGSEGV);
    }
    pthread_mutex_unlock(&instance->lock);
    for (;;) /* the script asks for an operation that never returns */
        pause();
}
