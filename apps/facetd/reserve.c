/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reservations as changes of the registry, each planned on the node as it is now, written, then acknowledged; and
 * the division of devices between reservations and vGPUs (ADR 17).
 * Never: acknowledges a reservation that is not in the database, drops a reservation whose device is missing, or grants
 * a part that an older reservation or a vGPU has.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/allocation.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "device/node.h"
#include "node.h"
#include "occupancy.h"
#include "vgpu.h"

static struct reservation *find_reservation(const struct registry *registry, const char *ref)
{
    for (size_t i = 0; i < registry->reservations.count; i++) {
        struct reservation *reservation = &registry->reservations.items[i];
        if (strcmp(reservation->id, ref) == 0 || strcmp(reservation->name, ref) == 0)
            return reservation;
    }
    return NULL;
}

/* --- the node as it is now -------------------------------------------------------------------------------------- */

struct node_view {
    struct facet_spec *spec;
    struct occupancy *occupancy;
};

static void drop_node_view(struct node_view *node_view)
{
    occupancy_close(node_view->occupancy);
    facet_spec_destroy(node_view->spec);
}
#define CLEANUP_NODE_VIEW __attribute__((cleanup(drop_node_view)))

/* The part of the device that a vGPU of mode hard has to itself: the larger of its shares of memory and compute. */
static int64_t hard_share_of(const struct vgpu_row *row, const struct facet_device_record *device)
{
    __extension__ typedef unsigned __int128 wide;
    uint32_t milli = row->limits.compute_request_milli > row->slice.compute_milli ? row->limits.compute_request_milli
                                                                                  : row->slice.compute_milli;
    uint64_t device_bytes = device->info.valid & FACET_DEVICE_HAS_MEMORY ? device->info.memory_bytes : 0;
    int64_t compute = (int64_t)milli * (FACET_AMOUNT_ONE / FACET_MILLI_WHOLE), memory = 0;

    if (device_bytes && row->limits.memory_bytes >= device_bytes)
        return FACET_AMOUNT_ONE;
    if (device_bytes)
        memory =
            (int64_t)(((wide)row->limits.memory_bytes * (uint64_t)FACET_AMOUNT_ONE + device_bytes - 1) / device_bytes);
    return memory > compute ? memory : compute;
}

/*
 * Withholds the partition, and its whole device, which would otherwise be offered while the partition is gone until it
 * is made again.
 */
static enum facet_status withhold_partition(struct registry *registry, struct occupancy *occupancy,
                                            const struct vgpu *vgpu, struct facet_error *error)
{
    const char *provider = vgpu->device->provider->name;
    enum facet_status status =
        occupancy_withhold(occupancy, provider, vgpu->row.slice.partition_uuid, FACET_AMOUNT_ONE, error);

    return status == FACET_OK
               ? occupancy_withhold(occupancy, provider, facet_node_device_id(registry->parts.devices, vgpu->device),
                                    FACET_AMOUNT_ONE, error)
               : status;
}

/* Withholds the parts of vGPUs that are in no reservation. */
static enum facet_status withhold_vgpus(struct registry *registry, struct occupancy *occupancy,
                                        struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (size_t i = 0; status == FACET_OK && i < registry->count; i++) {
        const struct vgpu *vgpu = &registry->vgpus[i];
        const struct vgpu_row *row = &vgpu->row;

        if (!vgpu->device || find_reservation(registry, row->reservation) || !mode_is_spatial(row->limits.mode))
            continue;
        if (row->limits.mode == FACET_MODE_PARTITIONED)
            status = withhold_partition(registry, occupancy, vgpu, error);
        else
            status = occupancy_withhold(occupancy, vgpu->device->provider->name,
                                        facet_node_device_id(registry->parts.devices, vgpu->device),
                                        hard_share_of(row, vgpu->device), error);
    }
    return status;
}

static void publish_reservations(struct registry *registry, struct reservation_list *list)
{
    pthread_mutex_lock(&registry->lock);
    const struct reservation_list previous = registry->reservations;
    registry->reservations = *list;
    pthread_mutex_unlock(&registry->lock);
    *list = previous;
}

/* Reads the providers, takes the parts of all holders, and notes the state of each reservation. */
static enum facet_status read_node(struct registry *registry, uint32_t strategy, struct node_view *node_view,
                                   struct facet_error *error)
{
    CLEANUP_RESERVATIONS struct reservation_list list = {0};
    enum facet_status status =
        node_describe(registry->parts.devices, registry->parts.sessions, &node_view->spec, error);

    if (status == FACET_OK)
        status = occupancy_open(node_view->spec, strategy, &node_view->occupancy, error);
    if (status == FACET_OK)
        status = reservation_list_copy(&registry->reservations, &list, error);
    for (size_t i = 0; status == FACET_OK && i < list.count; i++)
        status = occupancy_hold(node_view->occupancy, &list.items[i], error);
    if (status == FACET_OK)
        status = withhold_vgpus(registry, node_view->occupancy, error);
    if (status == FACET_OK)
        publish_reservations(registry, &list);
    return status;
}

void reserve_look(struct registry *registry)
{
    CLEANUP_NODE_VIEW struct node_view node_view = {0};
    struct facet_error error;

    if (registry->reservations.count == 0)
        return;
    if (read_node(registry, FACET_MAP_EVENLY, &node_view, &error) != FACET_OK) {
        facet_log(FACET_LOG_WARNING, "cannot read the state of the reservations: %s", error.message);
        return;
    }
    for (size_t i = 0; i < registry->reservations.count; i++)
        for (uint32_t j = 0; j < registry->reservations.items[i].part_count; j++)
            if (registry->reservations.items[i].parts[j].trouble[0])
                facet_log(FACET_LOG_WARNING, "reservation %s: slot %s: %s", registry->reservations.items[i].name,
                          registry->reservations.items[i].parts[j].slot,
                          registry->reservations.items[i].parts[j].trouble);
}

/* --- making ------------------------------------------------------------------------------------------------------- */

static enum facet_status fail_not_found(const char *ref, struct facet_error *error)
{
    return facet_error_argument(error, FACET_NOT_FOUND, "reservation", "no reservation has the id or name '%.64s'",
                                ref);
}

static enum facet_status choose_name(const struct registry *registry, struct reservation *reservation,
                                     struct facet_error *error)
{
    if (reservation->name[0] && find_reservation(registry, reservation->name))
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "name", "a reservation named '%s' exists",
                                    reservation->name);
    for (size_t n = 1; !reservation->name[0]; n++) {
        char name[FACET_NAME_SIZE];

        snprintf(name, sizeof name, "reservation-%zu", n);
        if (!find_reservation(registry, name))
            memcpy(reservation->name, name, sizeof name);
    }
    return FACET_OK;
}

static enum facet_status choose_id(const struct registry *registry, struct reservation *reservation,
                                   struct facet_error *error)
{
    enum facet_status status = registry_random_id(reservation->id, error);

    while (status == FACET_OK && find_reservation(registry, reservation->id))
        status = registry_random_id(reservation->id, error);
    return status;
}

/* Makes room for another reservation, so that adding it cannot fail once it is in the database. */
static enum facet_status ensure_reservation_capacity(struct registry *registry, struct facet_error *error)
{
    struct reservation_list *list = &registry->reservations;

    if (list->count < list->capacity)
        return FACET_OK;
    pthread_mutex_lock(&registry->lock);
    struct reservation *grown = reallocarray(list->items, list->capacity + 16, sizeof *grown);
    if (grown) {
        list->items = grown;
        list->capacity += 16;
    }
    pthread_mutex_unlock(&registry->lock);
    return grown ? FACET_OK : facet_error_set(error, FACET_NO_MEMORY, "no memory for another reservation");
}

static enum facet_status record_reservation(struct registry *registry, const struct reservation *reservation,
                                            struct facet_error *error)
{
    struct reservation_row row = {0};
    enum facet_status status = reservation_to_row(reservation, &row, error);

    if (status == FACET_OK)
        status = store_begin(registry->store, error);
    if (status == FACET_OK) {
        status = store_insert_reservation(registry->store, &row, error);
        if (status == FACET_OK)
            status = store_commit(registry->store, error);
        else
            store_rollback(registry->store);
    }
    free(row.text);
    return status;
}

static enum facet_status settle_reservation(struct registry *registry, const struct reservation *reservation,
                                            struct facet_error *error)
{
    CLEANUP_RESERVATION struct reservation copy = {0};
    enum facet_status status = ensure_reservation_capacity(registry, error);

    if (status == FACET_OK)
        status = reservation_copy(reservation, &copy, error);
    if (status == FACET_OK)
        status = record_reservation(registry, reservation, error);
    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&registry->lock);
    registry->reservations.items[registry->reservations.count++] = copy;
    pthread_mutex_unlock(&registry->lock);
    copy = (struct reservation){0};
    return FACET_OK;
}

/* Adds to a refusal the first reservation that has some of the slot. */
static void name_holder(const struct registry *registry, const char *slot, struct facet_error *error)
{
    char amount[FACET_AMOUNT_SIZE];

    for (size_t i = 0; error && i < registry->reservations.count; i++) {
        const struct reservation *holder = &registry->reservations.items[i];
        size_t used = strlen(error->message);

        for (uint32_t p = 0; p < holder->part_count; p++) {
            const struct reservation_part *part = &holder->parts[p];

            if (strcmp(part->slot, slot) != 0)
                continue;
            snprintf(error->message + used, sizeof error->message - used, "; reservation %s has %s of %s", holder->name,
                     facet_amount_format(part->amount, amount, sizeof amount),
                     part->facet_id[0] ? part->facet_id : part->device);
            return;
        }
    }
}

static enum facet_status reserve_parts(struct registry *registry, struct reservation *reservation, bool dry_run,
                                       struct facet_error *error)
{
    CLEANUP_NODE_VIEW struct node_view node_view = {0};
    struct facet_maps_refusal refusal = {.size = sizeof refusal};
    enum facet_status status = choose_name(registry, reservation, error);

    if (status == FACET_OK)
        status = choose_id(registry, reservation, error);
    if (status == FACET_OK)
        status = read_node(registry, reservation->strategy, &node_view, error);
    if (status == FACET_OK)
        status = occupancy_grant(node_view.occupancy, reservation, &refusal, error);
    if (status != FACET_OK && refusal.reason == FACET_REFUSED_SHORT)
        name_holder(registry, reservation->items[refusal.item].slot, error);
    if (status != FACET_OK || dry_run)
        return status;
    reservation->created_ns = registry_wall_clock_ns();
    return settle_reservation(registry, reservation, error);
}

enum facet_status registry_reservation_create(struct registry *registry, const struct reservation *wanted, bool dry_run,
                                              struct reservation *ret_reservation, struct facet_error *error)
{
    CLEANUP_RESERVATION struct reservation reservation = {0};
    enum facet_status status = reservation_copy(wanted, &reservation, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&registry->change);
    status = reserve_parts(registry, &reservation, dry_run, error);
    pthread_mutex_unlock(&registry->change);
    if (status != FACET_OK)
        return status;
    if (dry_run)
        reservation.id[0] = '\0';
    *ret_reservation = reservation;
    reservation = (struct reservation){0};
    return FACET_OK;
}

/* --- releasing ---------------------------------------------------------------------------------------------------- */

static enum facet_status check_unused(const struct registry *registry, const struct reservation *reservation,
                                      struct facet_error *error)
{
    for (size_t i = 0; i < registry->count; i++)
        if (strcmp(registry->vgpus[i].row.reservation, reservation->id) == 0)
            return facet_error_argument(error, FACET_BUSY, "reservation",
                                        "reservation %s: vGPU %s is in it; destroy that one first", reservation->name,
                                        registry->vgpus[i].row.name);
    return FACET_OK;
}

static enum facet_status delete_reservation(struct registry *registry, const char *id, struct facet_error *error)
{
    enum facet_status status = store_begin(registry->store, error);

    if (status != FACET_OK)
        return status;
    status = store_delete_reservation(registry->store, id, error);
    if (status == FACET_OK)
        return store_commit(registry->store, error);
    store_rollback(registry->store);
    return status;
}

static void forget_reservation(struct registry *registry, struct reservation *reservation)
{
    struct reservation_list *list = &registry->reservations;
    size_t index = (size_t)(reservation - list->items);

    pthread_mutex_lock(&registry->lock);
    reservation_clear(reservation);
    list->count--;
    memmove(&list->items[index], &list->items[index + 1], (list->count - index) * sizeof *list->items);
    pthread_mutex_unlock(&registry->lock);
}

enum facet_status registry_reservation_release(struct registry *registry, const char *ref, struct facet_error *error)
{
    pthread_mutex_lock(&registry->change);
    struct reservation *reservation = find_reservation(registry, ref);
    enum facet_status status = reservation ? check_unused(registry, reservation, error) : fail_not_found(ref, error);
    if (status == FACET_OK)
        status = delete_reservation(registry, reservation->id, error);
    if (status == FACET_OK)
        forget_reservation(registry, reservation);
    pthread_mutex_unlock(&registry->change);
    return status;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

enum facet_status registry_reservation_find(struct registry *registry, const char *ref,
                                            struct reservation *ret_reservation, struct facet_error *error)
{
    pthread_mutex_lock(&registry->lock);
    const struct reservation *reservation = find_reservation(registry, ref);
    enum facet_status status =
        reservation ? reservation_copy(reservation, ret_reservation, error) : fail_not_found(ref, error);
    pthread_mutex_unlock(&registry->lock);
    return status;
}

enum facet_status registry_reservation_list(struct registry *registry, struct reservation_list *ret_list,
                                            struct facet_error *error)
{
    pthread_mutex_lock(&registry->lock);
    enum facet_status status = reservation_list_copy(&registry->reservations, ret_list, error);
    pthread_mutex_unlock(&registry->lock);
    return status;
}

/* --- vGPUs -------------------------------------------------------------------------------------------------------- */

/* The reserved amount of a whole device. Partitions count as devices of their own. */
static int64_t reserved_by(const struct registry *registry, const struct reservation *reservation,
                           const struct facet_device_record *device)
{
    const char *id = facet_node_device_id(registry->parts.devices, device);
    size_t length = strlen(device->provider->name);
    int64_t sum = 0;

    for (uint32_t i = 0; i < reservation->part_count; i++) {
        const struct reservation_part *part = &reservation->parts[i];
        if (strcmp(part->device, id) == 0 && strncmp(part->slot, device->provider->name, length) == 0 &&
            part->slot[length] == '.')
            sum += part->amount;
    }
    return sum;
}

/* The sum of the parts of a device that vGPUs of mode hard have in the reservation `id`; "": in no reservation. */
static int64_t sum_hard_shares(const struct registry *registry, const struct facet_device_record *device,
                               const char *id)
{
    int64_t sum = 0;

    for (size_t i = 0; i < registry->count; i++) {
        const struct vgpu *vgpu = &registry->vgpus[i];
        if (vgpu->device == device && vgpu->row.limits.mode == FACET_MODE_HARD &&
            strcmp(vgpu->row.reservation, id) == 0)
            sum += hard_share_of(&vgpu->row, device);
    }
    return sum;
}

static enum facet_status check_unreserved(const struct reservation *reservation,
                                          const struct facet_device_record *device, struct facet_error *error)
{
    for (uint32_t i = 0; i < reservation->part_count; i++)
        if (strcmp(reservation->parts[i].facet_id, device->id) == 0)
            return facet_error_argument(error, FACET_BAD_STATE, "reservation",
                                        "reservation %s has a partition of device %s, and nothing of the whole "
                                        "device: no vGPU can be made in it; programs get the partition by "
                                        "'facet place show --render'",
                                        reservation->name, device->id);
    return facet_error_argument(error, FACET_BAD_STATE, "reservation",
                                "reservation %s has nothing of device %s; expected one of its devices",
                                reservation->name, device->id);
}

static enum facet_status check_inside(const struct registry *registry, const struct vgpu_row *row,
                                      const struct facet_device_record *device, struct facet_error *error)
{
    const struct reservation *reservation = find_reservation(registry, row->reservation);
    int64_t reserved = reserved_by(registry, reservation, device),
            used = sum_hard_shares(registry, device, row->reservation);
    char requested_text[FACET_AMOUNT_SIZE], reserved_text[FACET_AMOUNT_SIZE], left_text[FACET_AMOUNT_SIZE];
    int64_t share = row->limits.mode == FACET_MODE_HARD ? hard_share_of(row, device) : 0;

    if (row->limits.mode == FACET_MODE_PARTITIONED)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "reservation",
                                    "reservation %s: mode 'partitioned' cuts a device that it counts as one; expected "
                                    "hard, soft or shared",
                                    reservation->name);
    if (!reserved)
        return check_unreserved(reservation, device, error);
    if (share <= reserved - used)
        return FACET_OK;
    return facet_error_argument(error, FACET_NO_SPACE, "reservation",
                                "reservation %s: %s of device %s asked for, expected at most %s: it has %s, less what "
                                "its vGPUs have",
                                reservation->name, facet_amount_format(share, requested_text, sizeof requested_text),
                                device->id,
                                facet_amount_format(reserved > used ? reserved - used : 0, left_text, sizeof left_text),
                                facet_amount_format(reserved, reserved_text, sizeof reserved_text));
}

static enum facet_status check_outside(const struct registry *registry, const struct vgpu_row *row,
                                       const struct facet_device_record *device, struct facet_error *error)
{
    char requested_text[FACET_AMOUNT_SIZE], reserved_text[FACET_AMOUNT_SIZE];
    const char *holder = NULL;
    int64_t reserved = 0;

    for (size_t i = 0; i < registry->reservations.count; i++) {
        int64_t part = reserved_by(registry, &registry->reservations.items[i], device);
        reserved += part;
        holder = part && !holder ? registry->reservations.items[i].name : holder;
    }
    if (reserved == 0)
        return FACET_OK;
    facet_amount_format(reserved, reserved_text, sizeof reserved_text);
    if (row->limits.mode == FACET_MODE_PARTITIONED)
        return facet_error_argument(error, FACET_BAD_STATE, "mode",
                                    "mode 'partitioned': %s of device %s is reserved as a whole device (%s); release "
                                    "that first, or use another device",
                                    reserved_text, device->id, holder);
    int64_t share = hard_share_of(row, device);
    if (reserved + sum_hard_shares(registry, device, "") + share <= FACET_AMOUNT_ONE)
        return FACET_OK;
    return facet_error_argument(error, FACET_NO_SPACE, "reservation",
                                "%s of device %s asked for, and %s of it is reserved (%s); name a reservation to use "
                                "what it has, or release it",
                                facet_amount_format(share, requested_text, sizeof requested_text), device->id,
                                reserved_text, holder);
}

static const struct reservation_part *usable_part(const struct reservation *reservation)
{
    for (uint32_t i = 0; i < reservation->part_count; i++)
        if (!reservation->parts[i].trouble[0])
            return &reservation->parts[i];
    return NULL;
}

/* Finds the first usable device. If there was none at the last look, looks at the devices again. */
static enum facet_status first_device(struct registry *registry, const char *id, const char **ret_device,
                                      struct facet_error *error)
{
    const struct reservation *reservation = find_reservation(registry, id);
    const struct reservation_part *part = usable_part(reservation);

    if (!part) {
        reserve_look(registry);
        reservation = find_reservation(registry, id);
        part = usable_part(reservation);
    }
    if (!part)
        return facet_error_argument(error, FACET_BAD_STATE, "reservation",
                                    "reservation %s: none of its devices can be used now: %s", reservation->name,
                                    reservation->parts[0].trouble);
    *ret_device = part->facet_id;
    return FACET_OK;
}

enum facet_status reserve_resolve(struct registry *registry, const char *ref, char ret_id[VGPU_ID_SIZE],
                                  const char **ret_device, struct facet_error *error)
{
    const struct reservation *reservation = find_reservation(registry, ref);

    if (!reservation)
        return fail_not_found(ref, error);
    memcpy(ret_id, reservation->id, VGPU_ID_SIZE);
    return ret_device ? first_device(registry, ret_id, ret_device, error) : FACET_OK;
}

/* Gives a request of mode soft without limits the reservation's part of the device, instead of all of the device. */
void reserve_default(const struct registry *registry, const char *id, const struct facet_device_record *device,
                     struct request *request)
{
    __extension__ typedef unsigned __int128 wide;
    const struct reservation *reservation = find_reservation(registry, id);
    int64_t reserved = reservation ? reserved_by(registry, reservation, device) : 0;
    uint64_t device_bytes = device->info.valid & FACET_DEVICE_HAS_MEMORY ? device->info.memory_bytes : 0;

    if (request->limits.mode != FACET_MODE_SOFT || reserved <= 0 || reserved >= FACET_AMOUNT_ONE)
        return;
    if (!(request->present & REQUEST_MEMORY_LIMIT) && device_bytes) {
        request->limits.memory_bytes = (uint64_t)((wide)device_bytes * (uint64_t)reserved / (uint64_t)FACET_AMOUNT_ONE);
        request->present |= REQUEST_MEMORY_LIMIT;
    }
    if (!(request->present & REQUEST_COMPUTE)) {
        request->limits.compute_request_milli = (uint32_t)(reserved / (FACET_AMOUNT_ONE / FACET_MILLI_WHOLE));
        request->present |= REQUEST_COMPUTE_REQUEST;
    }
}

enum facet_status reserve_check(const struct registry *registry, const struct vgpu_row *row,
                                const struct facet_device_record *device, struct facet_error *error)
{
    if (row->reservation[0])
        return check_inside(registry, row, device, error);
    return mode_is_spatial(row->limits.mode) ? check_outside(registry, row, device, error) : FACET_OK;
}

/* --- start-up ----------------------------------------------------------------------------------------------------- */

/* Advises how to start: a daemon without the reservations could give away parts that are reserved. */
static void advise_release(struct facet_error *error)
{
    const struct facet_error reason = *error;

    facet_error_set(error, reason.status,
                    "opening: database: %.180s; restore it from a backup, or move it aside to start without the vGPUs "
                    "and reservations it names",
                    reason.message);
}

enum facet_status reserve_restore(struct registry *registry, struct facet_error *error)
{
    struct reservation_row *rows = NULL;
    size_t count = 0;
    enum facet_status status = store_load_reservations(registry->store, &rows, &count, error);

    for (size_t i = 0; status == FACET_OK && i < count; i++) {
        status = ensure_reservation_capacity(registry, error);
        if (status == FACET_OK)
            status = reservation_from_row(&rows[i], &registry->reservations.items[registry->reservations.count], error);
        registry->reservations.count += status == FACET_OK;
        if (error && (status == FACET_CORRUPT || status == FACET_UNSUPPORTED))
            advise_release(error);
    }
    reservation_rows_free(rows, count);
    return status;
}
