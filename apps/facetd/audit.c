/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: comparing the drivers' memory counts with the limiter's charges; see audit.h. Never: holds its lock during a
 * call.
 */
#include "audit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "sessions.h"
#include "tenants.h"

/* The driver counts too much when its count is above the charge by more than SLACK_BYTES, and by more than a tenth of
 * the charge, for EXCESS_NS. */
#define SLACK_BYTES (UINT64_C(64) << 20)
#define SLACK_PART  10
#define EXCESS_NS   (10 * FACET_NS_PER_S)

struct entry {
    char id[VGPU_ID_SIZE];
    bool listed; /* the driver lists a process of the vGPU, with its memory */
    struct audit_result result;
    uint64_t above_since_ns; /* since when the driver counts more; 0: it does not */
};

struct audit {
    pthread_mutex_t lock; /* guards the entries */
    struct entry *entries;
    size_t count;
    uint64_t looked_ns;
};

enum facet_status audit_open(struct audit **ret_audit, struct facet_error *error)
{
    struct audit *audit = calloc(1, sizeof *audit);

    if (!audit)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the audit of memory");
    pthread_mutex_init(&audit->lock, NULL);
    *ret_audit = audit;
    return FACET_OK;
}

void audit_close(struct audit *audit)
{
    if (!audit)
        return;
    pthread_mutex_destroy(&audit->lock);
    free(audit->entries);
    free(audit);
}

static const struct entry *find_entry(const struct audit *audit, const char *id)
{
    for (size_t i = 0; i < audit->count; i++)
        if (strcmp(audit->entries[i].id, id) == 0)
            return &audit->entries[i];
    return NULL;
}

bool audit_of(struct audit *audit, const char *vgpu_id, struct audit_result *ret_result)
{
    pthread_mutex_lock(&audit->lock);
    const struct entry *entry = find_entry(audit, vgpu_id);
    bool was_listed = entry && entry->listed;
    if (was_listed)
        *ret_result = entry->result;
    pthread_mutex_unlock(&audit->lock);
    return was_listed;
}

/* Adds the driver's counts for the processes of one device. */
static void add_device(const struct daemon *daemon, const struct facet_device_record *device,
                       const struct tenants *tenants, const struct vgpu_info *infos, struct entry *entries)
{
    struct device_reading reading;

    if (sessions_read(daemon->sessions, device, &reading, NULL) != FACET_OK)
        return;
    for (uint32_t i = 0; i < reading.process_count; i++) {
        const struct facet_process_metrics *process = &reading.processes[i];
        const struct vgpu_info *info =
            process->valid & FACET_PROCESS_HAS_MEMORY ? tenants_find(tenants, device->id, process->pid) : NULL;

        if (!info)
            continue;
        entries[info - infos].listed = true;
        entries[info - infos].result.driver_bytes += process->memory_used_bytes;
    }
    device_reading_free(&reading);
}

static bool is_above(uint64_t driver_bytes, uint64_t charged)
{
    uint64_t more = driver_bytes > charged ? driver_bytes - charged : 0;

    return more > SLACK_BYTES && more > charged / SLACK_PART;
}

static void compare_use(const struct audit *audit, const struct vgpu_info *info, uint64_t now_ns, struct entry *entry)
{
    const struct entry *before = find_entry(audit, info->row.id);

    memcpy(entry->id, info->row.id, sizeof entry->id);
    if (!entry->listed || !(info->view.believed & FACET_BELIEVED_MEMORY) ||
        !is_above(entry->result.driver_bytes, info->view.totals.memory_bytes))
        return;
    entry->above_since_ns = before && before->above_since_ns ? before->above_since_ns : now_ns;
    entry->result.excess = now_ns - entry->above_since_ns >= EXCESS_NS;
    if (entry->result.excess && !(before && before->result.excess))
        facet_log(FACET_LOG_WARNING,
                  "vGPU %s: the driver counts %llu bytes of its processes, of which %llu are charged", info->row.name,
                  (unsigned long long)entry->result.driver_bytes, (unsigned long long)info->view.totals.memory_bytes);
}

static void compare_vgpus(struct audit *audit, const struct daemon *daemon, const struct vgpu_info *infos, size_t count,
                          uint64_t now_ns)
{
    struct entry *entries = calloc(count ? count : 1, sizeof *entries), *old = entries;
    struct tenants tenants = {0};

    if (entries && tenants_read(infos, count, &tenants, NULL) == FACET_OK) {
        for (uint32_t i = 0; tenants.count && i < facet_device_table_count(daemon->devices); i++)
            add_device(daemon, facet_device_table_at(daemon->devices, i), &tenants, infos, entries);
        for (size_t i = 0; i < count; i++)
            compare_use(audit, &infos[i], now_ns, &entries[i]);
        pthread_mutex_lock(&audit->lock);
        old = audit->entries;
        audit->entries = entries;
        audit->count = count;
        pthread_mutex_unlock(&audit->lock);
    }
    tenants_free(&tenants);
    free(old);
}

/* Whether processes of the vGPU are on an NVIDIA GPU: elsewhere the limiter's charge is the only count. */
static bool runs_on_nvidia(const struct daemon *daemon, const struct vgpu_info *info)
{
    const struct facet_device_record *device = NULL;

    return info->measured && info->view.totals.processes &&
           facet_device_table_find(daemon->devices, info->row.device_id, &device, NULL) == FACET_OK &&
           (strncmp(device->info.address, "GPU-", 4) == 0 || strncmp(device->info.address, "MIG-", 4) == 0);
}

void audit_look(struct audit *audit, const struct daemon *daemon, uint64_t now_ns)
{
    struct vgpu_info *infos = NULL;
    size_t count = 0;

    if (now_ns - audit->looked_ns < FACET_NS_PER_S)
        return;
    audit->looked_ns = now_ns;
    if (registry_list(daemon->registry, &infos, &count, NULL) != FACET_OK)
        return;
    for (size_t i = 0; i < count; i++)
        if (runs_on_nvidia(daemon, &infos[i])) {
            sessions_watch(daemon->sessions);
            break;
        }
    compare_vgpus(audit, daemon, infos, count, now_ns);
    free(infos);
}
