/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: one scheduling thread per device; see scheduler.h. Never: speaks HTTP, or touches the database or folders. */
#include "scheduler.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/paths.h"
#include "compute/fair.h"
#include "demand.h"
#include "listen.h"
#include "plan.h"
#include "residence.h"
#include "shares.h"
#include "threads.h"
#include "turns.h"

/* The interval at which dead processes are reaped, so that a killed tenant's quota is free within 100 ms. */
#define REAP_NS (25 * FACET_NS_PER_MS)

/* The interval of heartbeats and samples; tenants take a daemon for dead after four of them. */
#define TICK_NS (100 * FACET_NS_PER_MS)

/* The greatest age of the numbers in an answer. */
#define VIEW_NS (2 * FACET_NS_PER_MS)

/* The most steps in a row while gates change: a launch may have raced with a gate that closes. */
#define STEPS_PER_WAKE 4

struct client {
    bool used, frozen;
    bool idle_frozen; /* frozen because it was idle; the next launch resumes it */
    int fair;         /* its index in `device.fair`; -1: it takes no turns, and its gate is open unless it is frozen */
    int residence;    /* its index in `device.residence`; -1: all its memory is always on the device */
    bool stuck;       /* at the last look: it gives no memory back, and no vGPU waits for it */
    char vgpu_id[64];
    struct facet_owner *owner;
    struct facet_usage_totals totals; /* at the last look */
    struct demand demand;             /* at the last look */
};

struct device {
    char id[64];
    struct facet_bell *bell; /* of segments of version 7; NULL: the device never had one */
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    struct listen listen;
    bool stopping;
    uint64_t reap_at_ns, sample_at_ns, stepped_ns;
    struct facet_fair fair;
    struct facet_residence residence;
    struct shares shares; /* by client number */
    struct client clients[FACET_FAIR_CLIENTS];
    uint32_t client_end; /* one past the highest client ever used */
    struct device *next;
};

struct scheduler {
    char folder[FACET_PATH_SIZE];
    struct turns turns;
    struct facet_residence_config residence;
    pthread_mutex_t lock; /* guards the list of devices; taken before a device's lock */
    struct device *devices;
};

/* ---- one device's thread ---- */

static uint32_t count_processes(const struct device *device)
{
    uint32_t processes = 0;

    for (uint32_t i = 0; i < device->client_end; i++)
        if (device->clients[i].used)
            processes += device->clients[i].totals.processes;
    return processes;
}

static void look_at_device(struct device *device, uint64_t now_ns)
{
    for (uint32_t i = 0; i < device->client_end; i++) {
        struct client *client = &device->clients[i];

        if (!client->used)
            continue;
        facet_owner_set_heartbeat(client->owner, now_ns);
        facet_owner_totals(client->owner, &client->totals);
        if (client->totals.waiting_resident) /* a thread that waits for its memory does not wait at the gate yet */
            facet_owner_note_use(client->owner, FACET_RESOURCE_COMPUTE, now_ns);
        client->idle_frozen =
            facet_owner_update_idle_freeze(client->owner, &client->totals, now_ns) & FACET_RESOURCE_COMPUTE;
        residence_look(&device->residence, client->residence, &client->totals, client->frozen);
        client->demand = demand_of(client->owner, now_ns);
        if (client->fair < 0)
            continue;
        facet_fair_set_frozen(&device->fair, client->fair, client->frozen || client->idle_frozen);
        device->fair.clients[client->fair].demand = client->demand.fair;
    }
}

/* Settles the charges of the policy's step, right after it and with the same demands. */
static void settle_device(struct device *device, uint64_t now_ns)
{
    for (uint32_t i = 0; i < device->client_end; i++) {
        const struct client *client = &device->clients[i];

        if (client->used)
            shares_look(&device->shares, i, &client->demand.settle,
                        client->fair < 0 ? 0 : device->fair.clients[client->fair].timeline_ns);
    }
    shares_step(&device->shares, now_ns);
    for (uint32_t i = 0; i < device->client_end; i++)
        if (device->clients[i].used)
            shares_write_to_segment(&device->shares, i, device->clients[i].owner);
}

static enum facet_gate gate_of(const struct device *device, const struct client *client)
{
    static const enum facet_gate gates[] = {[FACET_FAIR_CLOSED] = FACET_GATE_CLOSED,
                                            [FACET_FAIR_LEASED] = FACET_GATE_LEASED,
                                            [FACET_FAIR_OPEN] = FACET_GATE_OPEN};

    if (client->fair >= 0)
        return gates[device->fair.clients[client->fair].gate];
    return client->frozen || client->idle_frozen ? FACET_GATE_CLOSED : FACET_GATE_OPEN;
}

/* Called before the gate opens, because the launches that it admits depend on these values. */
static void publish_turn(struct device *device, const struct client *client)
{
    facet_owner_set_depth(client->owner, device->fair.clients[client->fair].depth_ns);
    facet_owner_set_others_ended(client->owner, facet_fair_others_ended_ns(&device->fair, client->fair));
}

static bool apply_gates(struct device *device)
{
    bool changed = false;

    for (uint32_t i = 0; i < device->client_end; i++) {
        struct client *client = &device->clients[i];

        if (!client->used)
            continue;
        residence_publish_limit(&device->residence, client->residence, client->owner);
        residence_log_stuck(&device->residence, client->residence, client->vgpu_id, device->id, &client->stuck);
        enum facet_gate gate = gate_of(device, client);
        if (client->fair >= 0)
            publish_turn(device, client);
        if (facet_owner_gate(client->owner) == gate)
            continue;
        facet_owner_set_gate(client->owner, gate);
        changed = true;
    }
    return changed;
}

/* Checks the counters at each sample: a damaged counter that goes on counting looks plausible later. */
static void watch_totals(struct device *device, uint64_t now_ns)
{
    for (uint32_t i = 0; i < device->client_end; i++)
        if (device->clients[i].used) {
            facet_owner_check_totals(device->clients[i].owner, &device->clients[i].totals, now_ns);
            facet_owner_bound_files(device->clients[i].owner);
        }
}

static void reap_vgpus(struct device *device)
{
    for (uint32_t i = 0; i < device->client_end; i++)
        if (device->clients[i].used)
            facet_owner_reap_some(device->clients[i].owner);
}

/* Does all that is due now; returns when to look again. Called with the device's lock. */
static uint64_t step_device(struct device *device, uint64_t now_ns)
{
    uint64_t deadline = FACET_FAIR_NEVER, memory = FACET_RESIDENCE_NEVER;

    if (now_ns >= device->reap_at_ns) {
        reap_vgpus(device);
        device->reap_at_ns = now_ns + REAP_NS;
    }
    for (int i = 0; i < STEPS_PER_WAKE; i++) {
        look_at_device(device, now_ns);
        deadline = facet_fair_step(&device->fair, now_ns);
        settle_device(device, now_ns);
        memory = facet_residence_step(&device->residence, now_ns);
        if (!apply_gates(device))
            break;
        now_ns = facet_clock_now_ns();
    }
    device->stepped_ns = now_ns;
    if (now_ns >= device->sample_at_ns) {
        shares_sample(&device->shares, now_ns);
        watch_totals(device, now_ns);
        device->sample_at_ns = now_ns + TICK_NS;
    }
    if (count_processes(device) && device->reap_at_ns < deadline)
        deadline = device->reap_at_ns;
    deadline = memory < deadline ? memory : deadline;
    return device->sample_at_ns < deadline ? device->sample_at_ns : deadline;
}

/*
 * Raises the thread's priority, if it may: it works for microseconds at a time, and should not queue behind tenants'
 * kernels that keep every processor busy.
 */
static void raise_thread_priority(void)
{
    setpriority(PRIO_PROCESS, (id_t)gettid(), -15);
    prctl(PR_SET_TIMERSLACK, 1UL); /* turns are short against the kernel's default slack, 50 us */
}

/*
 * While it is set, processes make the call that wakes the scheduler. It is set before the words are compared with their
 * values of before the step: so a process that raised a word in between either sees it, or ends the wait at once.
 */
static void set_sleeping(struct device *device, bool sleeping)
{
    bool is_waited_for = sleeping || device->listen.by_threads;

    for (uint32_t i = 0; i < device->client_end; i++)
        if (device->clients[i].used)
            facet_owner_set_sleeping(device->clients[i].owner, is_waited_for);
    if (device->bell)
        atomic_store_explicit(&device->bell->sleeping, is_waited_for, memory_order_seq_cst);
}

static void *device_main(void *argument)
{
    struct device *device = argument;

    raise_thread_priority();
    for (;;) {
        struct listen_wait wait;

        pthread_mutex_lock(&device->lock);
        bool stopping = device->stopping;
        set_sleeping(device, false);
        listen_note(&device->listen);
        uint64_t deadline = stopping ? 0 : step_device(device, facet_clock_now_ns());
        set_sleeping(device, !stopping);
        listen_prepare(&device->listen, &wait);
        pthread_mutex_unlock(&device->lock);
        if (stopping)
            return NULL;

        uint64_t now = facet_clock_now_ns();
        if (deadline > now)
            listen_wait(&wait, deadline - now);
    }
}

/* ---- devices ---- */

/* The lock file's path. A device id is a part of it, so it may hold a colon ("opencl:0"), but no slash. */
static enum facet_status lock_path(const struct scheduler *scheduler, const char *device_id, char *path, size_t size,
                                   struct facet_error *error)
{
    if (!*device_id || strchr(device_id, '/'))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "device", "device id '%s' cannot name a file",
                                    device_id);
    if (snprintf(path, size, "%s/%s" FACET_DEVICE_LOCK_ENDING, scheduler->folder, device_id) >= (int)size)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "path of the device's lock file in '%s' is too long",
                               scheduler->folder);
    return FACET_OK;
}

static enum facet_status start_thread(struct device *device, struct facet_error *error)
{
    int result = thread_start(&device->thread, "scheduler", device_main, device);

    return result ? facet_error_errno(error, result, "starting the scheduler of %s", device->id) : FACET_OK;
}

/* Processes that entered a segment of version 7 wake the scheduler by the doorbell of their device. */
static enum facet_status open_bell(struct device *device, const char *lock_path, struct facet_error *error)
{
    char path[FACET_DEVICE_PATH_SIZE];
    struct facet_error reason;

    facet_device_bell_path(lock_path, path);
    enum facet_status status = facet_bell_open(path, &device->bell, &reason);
    if (status == FACET_OK)
        return listen_add(&device->listen, LISTEN_BELL, &device->bell->rings, error);
    if (status != FACET_NOT_FOUND)
        facet_log(FACET_LOG_WARNING, "programs of an earlier release are served late: %s", reason.message);
    return FACET_OK;
}

static void device_free(struct device *device)
{
    listen_remove(&device->listen, LISTEN_BELL);
    facet_bell_unmap(device->bell);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static enum facet_status device_new(struct scheduler *scheduler, const char *device_id, struct device **ret_device,
                                    struct facet_error *error)
{
    struct device *device = calloc(1, sizeof *device);
    char path[FACET_PATH_SIZE];

    if (!device)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the scheduler of %s", device_id);
    listen_init(&device->listen, !listen_can_wait_for_many());
    pthread_mutex_init(&device->lock, NULL);
    snprintf(device->id, sizeof device->id, "%s", device_id);
    facet_fair_init(&device->fair, turns_of(&scheduler->turns, device_id), facet_clock_now_ns());
    facet_residence_init(&device->residence, &scheduler->residence, facet_clock_now_ns());
    shares_init(&device->shares, facet_clock_now_ns());

    enum facet_status status = lock_path(scheduler, device_id, path, sizeof path, error);
    if (status == FACET_OK)
        status = facet_device_lock_make(path, error);
    if (status == FACET_OK)
        status = open_bell(device, path, error);
    if (status == FACET_OK)
        status = start_thread(device, error);
    if (status != FACET_OK) {
        device_free(device);
        return status;
    }
    *ret_device = device;
    return FACET_OK;
}

/* The device's scheduler, started on first use. Called with the scheduler's lock. */
static enum facet_status device_get(struct scheduler *scheduler, const char *device_id, struct device **ret_device,
                                    struct facet_error *error)
{
    for (struct device *device = scheduler->devices; device; device = device->next)
        if (strcmp(device->id, device_id) == 0) {
            *ret_device = device;
            return FACET_OK;
        }

    enum facet_status status = device_new(scheduler, device_id, ret_device, error);
    if (status == FACET_OK) {
        (*ret_device)->next = scheduler->devices;
        scheduler->devices = *ret_device;
    }
    return status;
}

static void wake_device(struct device *device)
{
    listen_wake(&device->listen);
}

/* Finds a vGPU and returns its device locked; NULL when unknown. */
static struct device *find_and_lock_device(struct scheduler *scheduler, const char *vgpu_id, uint32_t *ret_client)
{
    pthread_mutex_lock(&scheduler->lock);
    for (struct device *device = scheduler->devices; device; device = device->next) {
        pthread_mutex_lock(&device->lock);
        for (uint32_t i = 0; i < device->client_end; i++)
            if (device->clients[i].used && strcmp(device->clients[i].vgpu_id, vgpu_id) == 0) {
                pthread_mutex_unlock(&scheduler->lock);
                *ret_client = i;
                return device;
            }
        pthread_mutex_unlock(&device->lock);
    }
    pthread_mutex_unlock(&scheduler->lock);
    return NULL;
}

static enum facet_status refuse_unknown_vgpu(const char *vgpu_id, struct facet_error *error)
{
    return facet_error_argument(error, FACET_NOT_FOUND, "vgpu", "no vGPU '%s' is scheduled", vgpu_id);
}

/* The share of a vGPU while no scheduler runs: the whole device if it takes no turns. */
static uint32_t fallback_milli(const struct device *device, const struct client *client)
{
    return client->fair < 0 ? FACET_MILLI_WHOLE : facet_fair_fallback_milli(&device->fair, client->fair);
}

/* The vGPU's share while no scheduler runs, of the device's time: that of its own part of the device is a part of it.
 */
static uint64_t claim_weight(const struct device *device, uint32_t index)
{
    return (uint64_t)fallback_milli(device, &device->clients[index]) * device->shares.settle.clients[index].part_milli;
}

/*
 * Publishes what holds while no scheduler runs: the share that each vGPU keeps to, and its part of the time, in
 * proportion to its share. The parts add up to the whole: without other vGPUs, a vGPU has all of its measured time.
 */
static void publish_fallbacks(struct device *device)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < device->client_end; i++)
        if (device->clients[i].used)
            sum += claim_weight(device, i);
    for (uint32_t i = 0; i < device->client_end; i++)
        if (device->clients[i].used) {
            facet_owner_set_fallback(device->clients[i].owner, fallback_milli(device, &device->clients[i]));
            facet_owner_set_claim(device->clients[i].owner,
                                  sum ? (uint32_t)(claim_weight(device, i) * FACET_MILLI_WHOLE / sum) : 0);
        }
}

/* ---- the functions of scheduler.h ---- */

enum facet_status scheduler_start(const char *runtime_dir, struct scheduler **ret_scheduler, struct facet_error *error)
{
    struct scheduler *scheduler = calloc(1, sizeof *scheduler);

    if (!scheduler)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the scheduler");
    pthread_mutex_init(&scheduler->lock, NULL);
    snprintf(scheduler->folder, sizeof scheduler->folder, "%s/devices", runtime_dir);

    enum facet_status status = turns_configure(&scheduler->turns, error);
    if (status == FACET_OK)
        status = residence_configure(&scheduler->residence, error);
    if (status == FACET_OK)
        status = facet_path_make(scheduler->folder, 0700, error);
    if (status != FACET_OK) {
        scheduler_stop(scheduler);
        return status;
    }
    *ret_scheduler = scheduler;
    return FACET_OK;
}

static void device_stop(struct device *device)
{
    pthread_mutex_lock(&device->lock);
    device->stopping = true;
    pthread_mutex_unlock(&device->lock);
    wake_device(device);
    pthread_join(device->thread, NULL);
    for (uint32_t i = 0; i < device->client_end; i++)
        if (device->clients[i].used) {
            listen_remove(&device->listen, i);
            facet_owner_close(device->clients[i].owner);
        }
    device_free(device);
}

void scheduler_stop(struct scheduler *scheduler)
{
    if (!scheduler)
        return;
    while (scheduler->devices) {
        struct device *device = scheduler->devices;

        scheduler->devices = device->next;
        device_stop(device);
    }
    pthread_mutex_destroy(&scheduler->lock);
    free(scheduler);
}

enum facet_status scheduler_device_lock(struct scheduler *scheduler, const char *device_id, char *ret_path, size_t size,
                                        struct facet_error *error)
{
    struct device *device;

    pthread_mutex_lock(&scheduler->lock);
    enum facet_status status = device_get(scheduler, device_id, &device, error);
    pthread_mutex_unlock(&scheduler->lock);
    return status == FACET_OK ? lock_path(scheduler, device_id, ret_path, size, error) : status;
}

static struct client *free_client(struct device *device)
{
    for (uint32_t i = 0; i < FACET_FAIR_CLIENTS; i++)
        if (!device->clients[i].used) {
            if (i >= device->client_end)
                device->client_end = i + 1;
            return &device->clients[i];
        }
    return NULL;
}

/* The part of the device that a vGPU has to itself. */
static uint32_t part_milli(const struct facet_limits *limits)
{
    return mode_is_spatial(limits->mode) && limits->compute_request_milli ? limits->compute_request_milli
                                                                          : FACET_MILLI_WHOLE;
}

/*
 * Called with the device's lock. There are as many clients as places in the policy, so a free client implies a free
 * place.
 */
static enum facet_status add_client(struct device *device, const char *vgpu_id, struct facet_owner *owner,
                                    const struct facet_limits *limits, bool frozen, struct facet_error *error)
{
    struct client *client = free_client(device);

    if (!client)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "device", "device %s has %u vGPUs, as many as one may",
                                    device->id, FACET_FAIR_CLIENTS);
    enum facet_status status =
        listen_add(&device->listen, (uint32_t)(client - device->clients), facet_owner_rings(owner), error);
    if (status != FACET_OK)
        return status;
    *client = (struct client){.used = true, .frozen = frozen, .fair = -1, .owner = owner};
    client->residence = residence_add(&device->residence, owner, limits);
    snprintf(client->vgpu_id, sizeof client->vgpu_id, "%s", vgpu_id);
    facet_owner_totals(owner, &client->totals);
    if (mode_is_timed(limits->mode)) {
        client->fair = facet_fair_add(&device->fair, limits);
        /* The use of an adopted vGPU before now does not count against its cap. */
        device->fair.clients[client->fair].cap_busy_ns = client->totals.busy_ns;
        facet_fair_set_frozen(&device->fair, client->fair, frozen);
    }
    shares_add(&device->shares, (uint32_t)(client - device->clients), owner, client->fair >= 0, part_milli(limits),
               facet_clock_now_ns());
    facet_owner_set_frozen(owner, frozen ? FACET_RESOURCE_COMPUTE : 0);
    facet_owner_set_depth(owner, device->fair.config.slice_ns);
    publish_fallbacks(device);
    return FACET_OK;
}

enum facet_status scheduler_add(struct scheduler *scheduler, const char *device_id, const char *vgpu_id,
                                struct facet_owner *owner, const struct facet_limits *limits, bool frozen,
                                struct facet_error *error)
{
    struct device *device;

    pthread_mutex_lock(&scheduler->lock);
    enum facet_status status = device_get(scheduler, device_id, &device, error);
    pthread_mutex_unlock(&scheduler->lock);
    if (status != FACET_OK)
        return status;

    pthread_mutex_lock(&device->lock);
    status = add_client(device, vgpu_id, owner, limits, frozen, error);
    pthread_mutex_unlock(&device->lock);
    if (status == FACET_OK)
        wake_device(device);
    return status;
}

enum facet_status scheduler_remove(struct scheduler *scheduler, const char *vgpu_id, struct facet_error *error)
{
    uint32_t index;
    struct device *device = find_and_lock_device(scheduler, vgpu_id, &index);

    if (!device)
        return refuse_unknown_vgpu(vgpu_id, error);
    listen_remove(&device->listen, index);
    facet_owner_retire(device->clients[index].owner);
    facet_owner_close(device->clients[index].owner);
    if (device->clients[index].fair >= 0)
        facet_fair_remove(&device->fair, device->clients[index].fair);
    residence_remove(&device->residence, device->clients[index].residence);
    shares_remove(&device->shares, index);
    device->clients[index] = (struct client){0};
    publish_fallbacks(device);
    pthread_mutex_unlock(&device->lock);
    wake_device(device);
    return FACET_OK;
}

enum facet_status scheduler_set_limits(struct scheduler *scheduler, const char *vgpu_id,
                                       const struct facet_limits *limits, struct facet_error *error)
{
    uint32_t index;
    struct device *device = find_and_lock_device(scheduler, vgpu_id, &index);

    if (!device)
        return refuse_unknown_vgpu(vgpu_id, error);
    facet_owner_set_limits(device->clients[index].owner, limits);
    if (device->clients[index].fair >= 0)
        facet_fair_set_limits(&device->fair, device->clients[index].fair, limits);
    residence_set_limits(&device->residence, device->clients[index].residence, limits);
    publish_fallbacks(device);
    pthread_mutex_unlock(&device->lock);
    wake_device(device);
    return FACET_OK;
}

enum facet_status scheduler_set_frozen(struct scheduler *scheduler, const char *vgpu_id, bool frozen,
                                       struct facet_error *error)
{
    uint32_t index;
    struct device *device = find_and_lock_device(scheduler, vgpu_id, &index);

    if (!device)
        return refuse_unknown_vgpu(vgpu_id, error);
    device->clients[index].frozen = frozen;
    facet_owner_set_frozen(device->clients[index].owner, frozen ? FACET_RESOURCE_COMPUTE : 0);
    if (device->clients[index].fair >= 0)
        facet_fair_set_frozen(&device->fair, device->clients[index].fair, frozen);
    pthread_mutex_unlock(&device->lock);
    wake_device(device);
    return FACET_OK;
}

enum facet_status scheduler_set_idle_freeze(struct scheduler *scheduler, const char *vgpu_id, uint32_t resources,
                                            uint64_t idle_ns, struct facet_error *error)
{
    uint32_t index;
    struct device *device = find_and_lock_device(scheduler, vgpu_id, &index);

    if (!device)
        return refuse_unknown_vgpu(vgpu_id, error);
    facet_owner_set_idle_freeze(device->clients[index].owner, resources, idle_ns);
    pthread_mutex_unlock(&device->lock);
    wake_device(device);
    return FACET_OK;
}

/* Steps the device, unless it was stepped just now: a call that reads all vGPUs of a device steps it once. */
static void refresh_view(struct device *device)
{
    uint64_t now_ns = facet_clock_now_ns();

    if (now_ns > device->stepped_ns + VIEW_NS)
        (void)step_device(device, now_ns);
    else
        shares_publish(&device->shares, now_ns);
}

enum facet_status scheduler_view(struct scheduler *scheduler, const char *vgpu_id, struct scheduler_view *ret_view,
                                 struct facet_error *error)
{
    struct scheduler_view view = {0};
    uint32_t index;
    struct device *device = find_and_lock_device(scheduler, vgpu_id, &index);

    if (!device)
        return refuse_unknown_vgpu(vgpu_id, error);
    struct client *client = &device->clients[index];
    refresh_view(device);
    facet_owner_reap(client->owner); /* memory of a process that has ended is not in use any more */
    view.believed = facet_owner_believed_totals(client->owner, &view.totals);
    view.damaged = view.believed != FACET_BELIEVED_ALL;
    view.device_time_ns = shares_device_time_ns(&device->shares, index);
    view.frozen = client->frozen;
    view.idle_frozen = client->idle_frozen;
    view.stuck = client->stuck;
    view.in_use = facet_owner_in_use(client->owner);
    view.share_valid = shares_of(&device->shares, index, &view.share_milli);
    pthread_mutex_unlock(&device->lock);
    wake_device(device); /* the step may have changed until when the thread should sleep */
    *ret_view = view;
    return FACET_OK;
}
