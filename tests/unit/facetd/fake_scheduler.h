/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fakes of the parts that the registry uses: devices, the scheduler, and inner calls that fail or end the process at a
 * chosen step.
 *
 * Owns: the counting of inner calls, three devices, a scheduler that only remembers.
 * Never: starts threads.
 */
#ifndef FACETD_TEST_FAKE_SCHEDULER_H
#define FACETD_TEST_FAKE_SCHEDULER_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "registry.h"

/* --- the step that fails -------------------------------------------------------------------------------------- */

static unsigned steps, fail_at, die_at;
static bool keeps_failing; /* every step after the failing one fails, too */

static bool step_fails(struct facet_error *error)
{
    steps++;
    if (die_at && steps == die_at)
        _exit(9); /* at once, as kill -9 would */
    if (!fail_at || (keeps_failing ? steps < fail_at : steps != fail_at))
        return false;
    facet_error_set(error, FACET_IO, "step %u failed", steps);
    return true;
}

#define WRAP(name, parameters, arguments)                                                                              \
    enum facet_status __real_##name parameters;                                                                        \
    enum facet_status __wrap_##name parameters;                                                                        \
    enum facet_status __wrap_##name parameters                                                                         \
    {                                                                                                                  \
        return step_fails(error) ? FACET_IO : __real_##name arguments;                                                 \
    }
WRAP(store_begin, (struct store * store, struct facet_error *error), (store, error))
WRAP(store_insert, (struct store * store, const struct vgpu_row *row, struct facet_error *error), (store, row, error))
WRAP(store_update, (struct store * store, const struct vgpu_row *row, struct facet_error *error), (store, row, error))
WRAP(store_delete, (struct store * store, const char *id, struct facet_error *error), (store, id, error))
WRAP(store_insert_reservation, (struct store * store, const struct reservation_row *row, struct facet_error *error),
     (store, row, error))
WRAP(store_delete_reservation, (struct store * store, const char *id, struct facet_error *error), (store, id, error))
WRAP(facet_owner_create,
     (const char *dir, const struct facet_owner_spec *spec, const char *lock_path, struct facet_owner **ret_owner,
      struct facet_error *error),
     (dir, spec, lock_path, ret_owner, error))

enum facet_status __real_store_commit(struct store *store, struct facet_error *error);
enum facet_status __wrap_store_commit(struct store *store, struct facet_error *error);
enum facet_status __wrap_store_commit(struct store *store, struct facet_error *error)
{
    if (!step_fails(error))
        return __real_store_commit(store, error);
    store_rollback(store);
    return FACET_IO;
}

/* --- devices -------------------------------------------------------------------------------------------------- */

enum { DEVICES = 3, SPATIAL = 2 }; /* SPATIAL: the index of the last device, which offers every mode */

static const struct facet_provider_record fake_record = {.name = "test"};
static struct facet_device_record devices[DEVICES];
static uint32_t device_count;

static void make_devices(void)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct facet_device_record *device = &devices[i];
        device->provider = &fake_record;
        snprintf(device->id, sizeof device->id, "test:%u", i);
        snprintf(device->info.uuid, sizeof device->info.uuid, "uuid-%u", i);
        snprintf(device->info.name, sizeof device->info.name, "Test device %u", i);
        snprintf(device->info.address, sizeof device->info.address, "address-%u", i);
        device->info.valid = FACET_DEVICE_HAS_MEMORY;
        device->info.memory_bytes = UINT64_C(1) << 30;
        device->info.modes = FACET_DEVICE_MODE(FACET_MODE_SOFT) | FACET_DEVICE_MODE(FACET_MODE_SHARED);
    }
    devices[SPATIAL].info.modes |= FACET_DEVICE_MODE(FACET_MODE_HARD) | FACET_DEVICE_MODE(FACET_MODE_PARTITIONED);
    devices[SPATIAL].info.capabilities =
        FACET_CAN_PARTITION | FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE | FACET_CAN_CONTAINER;
    device_count = DEVICES;
}

uint32_t __wrap_facet_device_table_count(const struct facet_device_table *table);
uint32_t __wrap_facet_device_table_count(const struct facet_device_table *table)
{
    return device_count;
}

uint32_t __wrap_facet_provider_count(const struct facet_device_table *table);
uint32_t __wrap_facet_provider_count(const struct facet_device_table *table)
{
    return 0;
}

const struct facet_device_record *__wrap_facet_device_table_at(const struct facet_device_table *table, uint32_t index);
const struct facet_device_record *__wrap_facet_device_table_at(const struct facet_device_table *table, uint32_t index)
{
    return &devices[index];
}

enum facet_status __wrap_facet_device_table_find(const struct facet_device_table *table, const char *text,
                                                 const struct facet_device_record **ret_device,
                                                 struct facet_error *error);
enum facet_status __wrap_facet_device_table_find(const struct facet_device_table *table, const char *text,
                                                 const struct facet_device_record **ret_device,
                                                 struct facet_error *error)
{
    for (uint32_t i = 0; i < device_count; i++)
        if (!text || strcmp(devices[i].id, text) == 0) {
            *ret_device = &devices[i];
            return FACET_OK;
        }
    return facet_error_argument(error, FACET_NOT_FOUND, "device", "no device '%s'", text);
}

/* --- the scheduler -------------------------------------------------------------------------------------------- */

struct scheduler {
    struct client {
        char id[VGPU_ID_SIZE];
        struct facet_owner *owner;
        struct facet_limits limits;
        bool frozen;
    } clients[16];
    size_t count;
};

static struct scheduler scheduler;
static char folder[64];

static struct client *client_of(const char *id)
{
    for (size_t i = 0; i < scheduler.count; i++)
        if (strcmp(scheduler.clients[i].id, id) == 0)
            return &scheduler.clients[i];
    return NULL;
}

enum facet_status scheduler_device_lock(struct scheduler *self, const char *device_id, char *ret_path, size_t size,
                                        struct facet_error *error)
{
    if (step_fails(error))
        return FACET_IO;
    snprintf(ret_path, size, "%s/%s.lock", folder, device_id);
    return facet_device_lock_make(ret_path, error);
}

enum facet_status scheduler_add(struct scheduler *self, const char *device_id, const char *vgpu_id,
                                struct facet_owner *owner, const struct facet_limits *limits, bool frozen,
                                struct facet_error *error)
{
    if (step_fails(error))
        return FACET_IO;
    struct client *client = &self->clients[self->count++];
    *client = (struct client){.owner = owner, .limits = *limits, .frozen = frozen};
    snprintf(client->id, sizeof client->id, "%s", vgpu_id);
    return FACET_OK;
}

enum facet_status scheduler_remove(struct scheduler *self, const char *vgpu_id, struct facet_error *error)
{
    struct client *client = client_of(vgpu_id);

    if (!client)
        return facet_error_set(error, FACET_NOT_FOUND, "no vGPU %s", vgpu_id);
    facet_owner_close(client->owner);
    *client = self->clients[--self->count];
    return FACET_OK;
}

enum facet_status scheduler_set_limits(struct scheduler *self, const char *vgpu_id, const struct facet_limits *limits,
                                       struct facet_error *error)
{
    if (step_fails(error))
        return FACET_IO;
    client_of(vgpu_id)->limits = *limits;
    return FACET_OK;
}

enum facet_status scheduler_set_frozen(struct scheduler *self, const char *vgpu_id, bool frozen,
                                       struct facet_error *error)
{
    if (step_fails(error))
        return FACET_IO;
    client_of(vgpu_id)->frozen = frozen;
    return FACET_OK;
}

enum facet_status scheduler_set_idle_freeze(struct scheduler *self, const char *vgpu_id, uint32_t resources,
                                            uint64_t idle_ns, struct facet_error *error)
{
    return FACET_OK;
}

enum facet_status scheduler_view(struct scheduler *self, const char *vgpu_id, struct scheduler_view *ret_view,
                                 struct facet_error *error)
{
    struct client *client = client_of(vgpu_id);

    *ret_view = (struct scheduler_view){.frozen = client->frozen, .in_use = facet_owner_in_use(client->owner)};
    facet_owner_totals(client->owner, &ret_view->totals);
    return FACET_OK;
}

static void scheduler_clear(void)
{
    for (size_t i = 0; i < scheduler.count; i++)
        facet_owner_close(scheduler.clients[i].owner);
    scheduler.count = 0;
}

#endif
