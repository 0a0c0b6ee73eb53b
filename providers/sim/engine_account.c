/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: accounts: the use of each worker, and the check before that use rises.
 * Never: raises a number outside of a transaction of the state, in which the use by all processes was added up.
 */
#include "engine.h"
#include "machine.h"
#include "state.h"

#include <stdlib.h>

static struct sim_account *find_account(const struct sim_engine *engine, uint32_t device, const char *partition_uuid,
                                        const char *worker)
{
    struct sim_account *account;

    LIST_FOREACH (account, &engine->accounts, link)
        if (account->device == device && strcmp(account->worker, worker) == 0 &&
            strcmp(account->partition_uuid, partition_uuid) == 0)
            return account;
    return NULL;
}

static enum facet_status new_account(struct facet_provider_instance *instance, uint32_t device,
                                     const char *partition_uuid, const char *worker, struct sim_account **ret_account,
                                     struct facet_error *error)
{
    struct sim_account *account = calloc(1, sizeof *account);

    if (!account)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for worker %s", worker);
    account->usage = &account->own_usage;
    enum facet_status status = sim_usage_claim(instance, device, partition_uuid, worker, &account->usage, error);
    if (status != FACET_OK) {
        free(account);
        return status;
    }
    account->device = device;
    FACET_KIT_TEXT(account->worker, worker);
    FACET_KIT_TEXT(account->partition_uuid, partition_uuid);
    account->read_at_ns = instance->engine->loads[device].at_ns;
    LIST_INSERT_HEAD(&instance->engine->accounts, account, link);
    *ret_account = account;
    return FACET_OK;
}

static void count_bytes(struct sim_use *use, uint64_t bytes, bool partition, bool worker)
{
    use->device += bytes;
    if (partition)
        use->partition += bytes;
    if (worker)
        use->worker += bytes;
}

struct sim_use sim_engine_use(const struct facet_provider_instance *instance, uint32_t device, const char *worker,
                              const char *partition_uuid)
{
    const struct sim_others *others = sim_others(instance);
    const struct sim_account *account;
    struct sim_use use = {0};

    LIST_FOREACH (account, &instance->engine->accounts, link)
        if (account->device == device)
            count_bytes(&use, account->usage->used_bytes, strcmp(account->partition_uuid, partition_uuid) == 0,
                        strcmp(account->worker, worker) == 0);
    for (size_t i = 0; i < others->count; i++) {
        const struct sim_other *other = &others->items[i];

        if (other->device == device)
            count_bytes(&use, other->used_bytes, strcmp(other->partition_uuid, partition_uuid) == 0,
                        strcmp(other->worker, worker) == 0);
    }
    return use;
}

static enum facet_status check_room(uint64_t bytes, uint64_t used, uint64_t total, enum facet_status status,
                                    const char *whose, struct facet_error *error)
{
    if (used <= total && bytes <= total - used)
        return FACET_OK;
    return facet_kit_fail(error, status,
                          "bytes %" PRIu64 ": expected at most %" PRIu64 ", what is left of the %s's %" PRIu64, bytes,
                          used < total ? total - used : 0, whose, total);
}

/* Checks whether `bytes` more fit: FACET_QUOTA, FACET_NO_SPACE. */
static enum facet_status check_memory_fits(struct facet_provider_instance *instance, uint32_t device,
                                           const struct sim_share *share, const char *worker, uint64_t bytes,
                                           struct facet_error *error)
{
    struct sim_use use = sim_engine_use(instance, device, worker, share->partition_uuid);
    enum facet_status status = FACET_OK;

    if (share->memory_limited)
        status = check_room(bytes, use.worker, share->memory_bytes, FACET_QUOTA, "worker", error);
    else if (share->partition_uuid[0])
        status = check_room(bytes, use.partition, share->memory_bytes, FACET_NO_SPACE, "partition", error);
    if (status != FACET_OK)
        return status;
    return check_room(bytes, use.device, sim_device_model(instance, device)->memory_bytes, FACET_NO_SPACE, "device",
                      error);
}

enum facet_status sim_account_enter(struct facet_provider_instance *instance, struct sim_context *context,
                                    const char *partition_uuid, const char *worker, uint64_t bytes,
                                    struct facet_error *error)
{
    struct sim_account *account = NULL;
    struct sim_share share = {0};
    struct sim_record *record;

    enum facet_status status = sim_state_begin(instance, &record, error);
    if (status != FACET_OK)
        return status;
    status = sim_share_in(instance, record, context->device, partition_uuid, worker, &share, error);
    if (status == FACET_OK)
        status = check_memory_fits(instance, context->device, &share, worker, bytes, error);
    if (status == FACET_OK)
        account = find_account(instance->engine, context->device, share.partition_uuid, worker);
    if (status == FACET_OK && !account)
        status = new_account(instance, context->device, share.partition_uuid, worker, &account, error);
    if (status == FACET_OK) {
        context->share = share;
        context->account = account;
        account->contexts++;
        account->usage->contexts++;
        account->usage->used_bytes += bytes;
    }
    return sim_state_end(instance, status, error);
}

void sim_account_leave(struct sim_context *context)
{
    struct sim_account *account = context->account;

    if (!context->lost)
        account->usage->contexts--;
    context->account = NULL;
    if (--account->contexts > 0)
        return;
    sim_usage_release(account->usage);
    LIST_REMOVE(account, link);
    free(account);
}

enum facet_status sim_account_take(struct facet_provider_instance *instance, struct sim_context *context,
                                   uint64_t bytes, struct facet_error *error)
{
    struct sim_account *account = context->account;
    struct sim_record *record;

    enum facet_status status = sim_state_begin(instance, &record, error);
    if (status != FACET_OK)
        return status;
    status = sim_share_in(instance, record, account->device, account->partition_uuid, account->worker, &context->share,
                          error);
    if (status == FACET_OK)
        status = check_memory_fits(instance, account->device, &context->share, account->worker, bytes, error);
    if (status == FACET_OK)
        account->usage->used_bytes += bytes;
    return sim_state_end(instance, status, error);
}
