/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of the table `limit`: hard limits of workers, and their enforcement. Never: lifts a limit that it
 * did not set. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/check.h"

static enum facet_status set_memory(struct facet_check *check, const char *worker, uint64_t bytes)
{
    return check->limit_ops.set_memory(check->instance, check->device, worker, bytes, &check->error);
}

static enum facet_status set_compute(struct facet_check *check, const char *worker, uint32_t milli)
{
    return check->limit_ops.set_compute(check->instance, check->device, worker, milli, &check->error);
}

static enum facet_status get_limit(struct facet_check *check, const char *worker, struct facet_worker_limit *ret_limit)
{
    return check->limit_ops.get(check->instance, check->device, worker, ret_limit, &check->error);
}

static enum facet_status clear_limit(struct facet_check *check, const char *worker)
{
    return check->limit_ops.clear(check->instance, check->device, worker, &check->error);
}

static enum facet_status call_list(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                   uint32_t capacity, uint32_t *ret_count)
{
    return check->limit_ops.list(check->instance, check->device, items, item_size, capacity, ret_count, &check->error);
}

static const struct facet_check_list limits_list = {"limit.list", sizeof(struct facet_worker_limit), false, call_list,
                                                    NULL};

static void refuse_absent_device(struct facet_check *check)
{
    facet_check_absent_device(check, "limit");
}

/* Expects a refusal of names that no worker may have. */
static void refuse_names(struct facet_check *check, const char *text,
                         enum facet_status (*set)(struct facet_check *check, const char *worker))
{
    static const char longest[] = "a23456789012345678901234567890123456789012345678901234567890123";
    static const char *const bad[] = {"", "-a", ".a", "_a", "a b", "a/b", "a\n", "../a", "a:b", "\xc3\xa4", NULL};
    struct facet_check_tally tally = {.text = text};
    char too_long[FACET_WORKER_SIZE + 1] = "x";

    facet_check_begin(check, "%s", text);
    for (int i = 0; bad[i]; i++)
        if (set(check, bad[i]) != FACET_INVALID_ARGUMENT)
            facet_check_tally_miss(&tally,
                                   "expected: invalid_argument for a name that is no worker's (name %d of "
                                   "refuse_names(), from 0)\ngot: another status",
                                   i);
    snprintf(too_long + 1, sizeof too_long - 1, "%s", longest);
    if (set(check, too_long) != FACET_INVALID_ARGUMENT)
        facet_check_tally_miss(&tally, "expected: invalid_argument for a name of 64 bytes\ngot: another status");
    if (set(check, NULL) != FACET_INVALID_ARGUMENT)
        facet_check_tally_miss(&tally, "expected: invalid_argument for NULL\ngot: another status");
    if (set(check, longest) != FACET_OK)
        facet_check_tally_miss(&tally, "expected: ok for a name of 63 bytes\ngot: %s", check->error.message);
    clear_limit(check, longest);
    facet_check_report_tallies(check, &tally, 1);
}

static enum facet_status set_some_memory(struct facet_check *check, const char *worker)
{
    return set_memory(check, worker, facet_check_info(check)->memory_bytes / 4);
}

static enum facet_status set_some_compute(struct facet_check *check, const char *worker)
{
    return set_compute(check, worker, 250);
}

static bool is_empty(struct facet_check *check, const char *what)
{
    uint32_t count = 0;
    enum facet_status status = call_list(check, NULL, NULL, sizeof(struct facet_worker_limit), 0, &count);

    if (count > 0)
        facet_check_skip(check, what, "the device has %" PRIu32 " workers already", count);
    return status == FACET_OK && count == 0;
}

static void refuse_wrong_memory(struct facet_check *check)
{
    uint64_t whole = facet_check_info(check)->memory_bytes;

    EXPECT_STATUS(check, "limit.set_memory: 0 bytes are out of range", FACET_OUT_OF_RANGE,
                  set_memory(check, FACET_CHECK_WORKER, 0));
    EXPECT_STATUS(check, "limit.set_memory: more than the device has is out of range", FACET_OUT_OF_RANGE,
                  set_memory(check, FACET_CHECK_WORKER, whole + 1));
    EXPECT_STATUS(check, "limit.set_memory: UINT64_MAX is out of range", FACET_OUT_OF_RANGE,
                  set_memory(check, FACET_CHECK_WORKER, UINT64_MAX));
    refuse_names(check, "limit.set_memory: names of workers are checked", set_some_memory);
    EXPECT_STATUS(check, "limit.clear: a worker without a limit is not found", FACET_NOT_FOUND,
                  clear_limit(check, FACET_CHECK_WORKER));
}

static void check_memory_limit(struct facet_check *check)
{
    uint64_t whole = facet_check_info(check)->memory_bytes, asked = whole / 4;
    struct facet_worker_limit limit = {.size = sizeof limit};

    if (!is_empty(check, "limit.set_memory"))
        return;
    refuse_wrong_memory(check);
    if (!EXPECT_OK(check, "limit.set_memory: a quarter of the device", set_memory(check, FACET_CHECK_WORKER, asked)))
        return;
    EXPECT_STATUS(check, "limit.set_memory: a second time is a bad state", FACET_BAD_STATE,
                  set_memory(check, FACET_CHECK_WORKER, asked / 2));
    if (EXPECT_OK(check, "limit.get: a worker with a memory limit", get_limit(check, FACET_CHECK_WORKER, &limit)))
        EXPECT_TRUE(check, "limit.get: says what was granted, at least what was asked for",
                    (limit.valid & FACET_WORKER_HAS_MEMORY) && !(limit.valid & FACET_WORKER_HAS_COMPUTE) &&
                        limit.memory_bytes >= asked && limit.memory_bytes <= whole,
                    "expected: a limit of memory alone, of at least %" PRIu64 " bytes\ngot: valid 0x%" PRIx32
                    ", %" PRIu64 " bytes",
                    asked, limit.valid, limit.memory_bytes);
    EXPECT_STATUS(check, "limit.set_memory: the sum stays within the device", FACET_NO_SPACE,
                  set_memory(check, FACET_CHECK_OTHER, whole));
    EXPECT_OK(check, "limit.set_memory: another worker", set_memory(check, FACET_CHECK_OTHER, asked));
    EXPECT_OK(check, "limit.clear: lifts it", clear_limit(check, FACET_CHECK_WORKER));
    EXPECT_STATUS(check, "limit.clear: a second time is not found", FACET_NOT_FOUND,
                  clear_limit(check, FACET_CHECK_WORKER));
    EXPECT_REFUSED(check, "limit.get: a worker whose limit was lifted is not found", FACET_NOT_FOUND, &limit,
                   sizeof limit, get_limit(check, FACET_CHECK_WORKER, &limit));
    EXPECT_OK(check, "limit.set_memory: once cleared it can be set again",
              set_memory(check, FACET_CHECK_WORKER, asked));
    EXPECT_OK(check, "limit.clear: the one", clear_limit(check, FACET_CHECK_WORKER));
    EXPECT_OK(check, "limit.clear: the other", clear_limit(check, FACET_CHECK_OTHER));
}

/* A limit that is no multiple of a page is granted exactly, or rounded up. */
static void check_odd_memory(struct facet_check *check)
{
    uint64_t asked = facet_check_info(check)->memory_bytes / 8 / 2 * 2 + 1;
    struct facet_worker_limit limit = {.size = sizeof limit};

    if (!is_empty(check, "limit.set_memory: an odd number of bytes"))
        return;
    if (!EXPECT_OK(check, "limit.set_memory: an odd number of bytes", set_memory(check, FACET_CHECK_WORKER, asked)))
        return;
    if (EXPECT_OK(check, "limit.get: an odd limit", get_limit(check, FACET_CHECK_WORKER, &limit)))
        EXPECT_TRUE(check, "limit.get: a limit is never rounded down", limit.memory_bytes >= asked,
                    "expected: at least %" PRIu64 " bytes\ngot: %" PRIu64 " bytes", asked, limit.memory_bytes);
    EXPECT_OK(check, "limit.clear: the odd one", clear_limit(check, FACET_CHECK_WORKER));
}

static void check_compute_limit(struct facet_check *check)
{
    struct facet_worker_limit limit = {.size = sizeof limit};

    if (!is_empty(check, "limit.set_compute"))
        return;
    EXPECT_STATUS(check, "limit.set_compute: 0 is out of range", FACET_OUT_OF_RANGE,
                  set_compute(check, FACET_CHECK_WORKER, 0));
    EXPECT_STATUS(check, "limit.set_compute: more than the device is out of range", FACET_OUT_OF_RANGE,
                  set_compute(check, FACET_CHECK_WORKER, 1001));
    EXPECT_STATUS(check, "limit.set_compute: UINT32_MAX is out of range", FACET_OUT_OF_RANGE,
                  set_compute(check, FACET_CHECK_WORKER, UINT32_MAX));
    refuse_names(check, "limit.set_compute: names of workers are checked", set_some_compute);
    if (!EXPECT_OK(check, "limit.set_compute: half of the device", set_compute(check, FACET_CHECK_WORKER, 500)))
        return;
    EXPECT_STATUS(check, "limit.set_compute: a second time is a bad state", FACET_BAD_STATE,
                  set_compute(check, FACET_CHECK_WORKER, 300));
    if (EXPECT_OK(check, "limit.get: a worker with a compute limit", get_limit(check, FACET_CHECK_WORKER, &limit)))
        EXPECT_TRUE(check, "limit.get: says what share was granted, at least what was asked for",
                    (limit.valid & FACET_WORKER_HAS_COMPUTE) && !(limit.valid & FACET_WORKER_HAS_MEMORY) &&
                        limit.compute_milli >= 500 && limit.compute_milli <= FACET_MILLI_WHOLE,
                    "expected: compute alone, of 500 to 1000 milli\ngot: valid 0x%" PRIx32 ", %" PRIu32 " milli",
                    limit.valid, limit.compute_milli);
    EXPECT_STATUS(check, "limit.set_compute: the sum stays within the device", FACET_NO_SPACE,
                  set_compute(check, FACET_CHECK_OTHER, FACET_MILLI_WHOLE - limit.compute_milli + 1));
    EXPECT_OK(check, "limit.clear: lifts a compute limit", clear_limit(check, FACET_CHECK_WORKER));
    EXPECT_OK(check, "limit.set_compute: all of the device", set_compute(check, FACET_CHECK_OTHER, 1000));
    EXPECT_OK(check, "limit.clear: lifts a limit of all of the device", clear_limit(check, FACET_CHECK_OTHER));
}

static bool set_either(struct facet_check *check, const char *worker)
{
    if (facet_check_claims(check, FACET_CAN_LIMIT_MEMORY))
        return EXPECT_OK(check, "limit.set_memory: one to list", set_some_memory(check, worker));
    return EXPECT_OK(check, "limit.set_compute: one to list", set_some_compute(check, worker));
}

static enum facet_status fill_limit(struct facet_check *check, const void *subject, void *out)
{
    return get_limit(check, subject, out);
}

static void check_entries(struct facet_check *check)
{
    struct facet_check_tally tally = {.text = "limit.list: agrees with limit.get"};
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_worker_limit *all = facet_check_fetch(check, &limits_list, &count);

    EXPECT_NUMBER(check, "limit.list: has both workers", 2, count);
    for (uint32_t i = 0; i < count; i++) {
        struct facet_worker_limit limit;

        memset(&limit, 0, sizeof limit);
        limit.size = sizeof limit;
        if (!facet_check_is_worker(all[i].worker, sizeof all[i].worker) || all[i].device != check->device ||
            !facet_check_is_text(all[i].address, sizeof all[i].address))
            facet_check_tally_miss(
                &tally,
                "expected: a worker's name, this device, a printable address\ngot: another name, device or address");
        else if (get_limit(check, all[i].worker, &limit) != FACET_OK || memcmp(&limit, &all[i], sizeof limit) != 0)
            facet_check_tally_miss(&tally, "expected: the values that limit.get returns for '%.63s'\ngot: other values",
                                   all[i].worker);
    }
    facet_check_report_tallies(check, &tally, 1);
}

static void list_both(struct facet_check *check)
{
    struct facet_worker_limit none;

    if (!is_empty(check, "limit.list"))
        return;
    facet_check_list_rules(check, &limits_list);
    if (!set_either(check, FACET_CHECK_WORKER) || !set_either(check, FACET_CHECK_OTHER))
        return;
    facet_check_list_rules(check, &limits_list);
    check_entries(check);
    facet_check_struct_rules(check, "limit.get", sizeof(struct facet_worker_limit), fill_limit, FACET_CHECK_WORKER);
    EXPECT_REFUSED(check, "limit.get: an unknown worker is not found", FACET_NOT_FOUND, &none, sizeof none,
                   get_limit(check, "conformance-unknown", &none));
    EXPECT_REFUSED(check, "limit.get: a NULL worker is an invalid argument", FACET_INVALID_ARGUMENT, &none, sizeof none,
                   get_limit(check, NULL, &none));
    EXPECT_STATUS(check, "limit.get: no place for the answer is an invalid argument", FACET_INVALID_ARGUMENT,
                  get_limit(check, FACET_CHECK_WORKER, NULL));
    EXPECT_STATUS(check, "limit.clear: a NULL worker is an invalid argument", FACET_INVALID_ARGUMENT,
                  clear_limit(check, NULL));
    EXPECT_OK(check, "limit.clear: the first of two workers", clear_limit(check, FACET_CHECK_WORKER));
    EXPECT_OK(check, "limit.clear: the second of two workers", clear_limit(check, FACET_CHECK_OTHER));
}

static void list_memory(struct facet_check *check)
{
    list_both(check);
}

static void list_compute(struct facet_check *check)
{
    if (!facet_check_claims(check, FACET_CAN_LIMIT_MEMORY))
        list_both(check);
}

static void check_allocation_bound(struct facet_check *check, uint64_t context, uint64_t limit)
{
    const struct facet_memory_ops *ops = &check->memory_ops;
    struct facet_memory_info info = {.size = sizeof info};
    uint64_t address = 0, none;

    EXPECT_OK(check, "memory.info: of a limited worker", ops->info(check->instance, context, &info, &check->error));
    EXPECT_NUMBER(check, "memory.info: a limited worker sees its limit", limit, info.total_bytes);
    EXPECT_REFUSED(check, "memory.alloc: above the worker's limit is over quota", FACET_QUOTA, &none, sizeof none,
                   ops->alloc(check->instance, context, limit + 1, &none, &check->error));
    EXPECT_OK(check, "memory.alloc: within the worker's limit",
              ops->alloc(check->instance, context, limit / 2, &address, &check->error));
    EXPECT_REFUSED(check, "memory.alloc: the sum above the worker's limit is over quota", FACET_QUOTA, &none,
                   sizeof none, ops->alloc(check->instance, context, limit / 2 + limit / 4, &none, &check->error));
    EXPECT_STATUS(check, "limit.clear: a worker with a context is busy", FACET_BUSY,
                  clear_limit(check, FACET_CHECK_WORKER));
}

/* Memory held by one context of a worker is not free for its other one. */
static void check_shared_limit(struct facet_check *check, uint64_t limit)
{
    const struct facet_memory_ops *ops = &check->memory_ops;
    uint64_t context = 0, address = 0, none;

    if (!facet_check_context(check, FACET_CHECK_WORKER, &context))
        return;
    EXPECT_REFUSED(check, "memory.alloc: two contexts of a worker share its limit", FACET_QUOTA, &none, sizeof none,
                   ops->alloc(check->instance, context, limit / 2 + limit / 4, &none, &check->error));
    EXPECT_OK(check, "memory.alloc: in a second context, what the first one left",
              ops->alloc(check->instance, context, limit / 4, &address, &check->error));
    facet_check_drop_context(check, context);
}

static void check_limits_bind(struct facet_check *check)
{
    struct facet_worker_limit limit = {.size = sizeof limit};
    uint64_t context = 0;

    if (!is_empty(check, "limit: binds contexts"))
        return;
    if (!EXPECT_OK(check, "limit.set_memory: an eighth of the device, to be bound by it",
                   set_memory(check, FACET_CHECK_WORKER, facet_check_info(check)->memory_bytes / 8)))
        return;
    EXPECT_OK(check, "limit.get: a limit that is to bind contexts", get_limit(check, FACET_CHECK_WORKER, &limit));
    if (facet_check_context(check, FACET_CHECK_WORKER, &context)) {
        check_allocation_bound(check, context, limit.memory_bytes);
        check_shared_limit(check, limit.memory_bytes);
        facet_check_drop_context(check, context);
    }
    EXPECT_OK(check, "limit.clear: once the context is gone", clear_limit(check, FACET_CHECK_WORKER));
}

static const struct facet_check_case cases[] = {
    {refuse_absent_device, 0},
    {check_memory_limit, FACET_CAN_LIMIT_MEMORY},
    {check_odd_memory, FACET_CAN_LIMIT_MEMORY},
    {check_compute_limit, FACET_CAN_LIMIT_COMPUTE},
    {list_memory, FACET_CAN_LIMIT_MEMORY},
    {list_compute, FACET_CAN_LIMIT_COMPUTE},
    {check_limits_bind, FACET_CAN_LIMIT_MEMORY | FACET_CAN_MEMORY},
    {NULL, 0},
};

const struct facet_check_group facet_check_limit = {.name = "limit", .about = "hard limits of workers", .cases = cases};
