/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: limits, contexts, memory and threads of the ascend provider over a fake node. Never: tests descriptions. */
#include <pthread.h>
#include <unistd.h>

#include "ascend_node.h"

#define GIB     (UINT64_C(1) << 30)
#define THREADS 8
#define ROUNDS  60

static struct facet_device_info infos[MAX_DEVICES];
static uint32_t count;

static struct facet_provider_instance *start_node(const char *scenario)
{
    node_libraries("dcmi", "acl");
    return node_start(scenario, infos, &count);
}

static const struct facet_limit_ops *limit_ops(void)
{
    return node_provider()->limit;
}

static const struct facet_memory_ops *memory_ops(void)
{
    return node_provider()->memory;
}

static uint64_t context_of(struct facet_provider_instance *instance, uint32_t device, const char *worker)
{
    struct facet_error error = {0};
    uint64_t context = 0;

    if (memory_ops()->create_context(instance, device, NULL, worker, &context, &error) != FACET_OK)
        fail_msg("create_context: %s", error.message);
    assert_true(context != 0);
    return context;
}

static void cores_are_rounded_up_and_never_oversubscribed(void **state)
{
    struct facet_provider_instance *instance = start_node("");
    struct facet_worker_limit granted = {.size = sizeof granted};

    assert_int_equal(limit_ops()->set_compute(instance, 0, "a", 301, NULL), FACET_OK); /* 6.02 of 20 cores */
    assert_int_equal(limit_ops()->get(instance, 0, "a", &granted, NULL), FACET_OK);
    assert_int_equal(granted.valid, FACET_WORKER_HAS_COMPUTE);
    assert_int_equal(granted.compute_units, 7);
    assert_int_equal(granted.compute_milli, 350);
    assert_string_equal(granted.address, "acl:0;cores=7/20");
    assert_int_equal(limit_ops()->set_compute(instance, 0, "b", 651, NULL), FACET_NO_SPACE); /* 14 cores, 13 are left */
    assert_int_equal(limit_ops()->set_compute(instance, 0, "b", 650, NULL), FACET_OK);
    assert_int_equal(limit_ops()->set_compute(instance, 0, "c", 1, NULL), FACET_NO_SPACE);
    assert_int_equal(limit_ops()->set_compute(instance, 1, "c", 1000, NULL), FACET_OK); /* another device */
    assert_int_equal(limit_ops()->clear(instance, 0, "b", NULL), FACET_OK);
    assert_int_equal(limit_ops()->set_compute(instance, 0, "c", 1, NULL), FACET_OK);
    assert_int_equal(limit_ops()->get(instance, 0, "c", &granted, NULL), FACET_OK);
    assert_int_equal(granted.compute_milli, 50);
    node_close(instance);
}

static void bytes_are_never_oversubscribed(void **state)
{
    struct facet_provider_instance *instance = start_node("");

    assert_int_equal(limit_ops()->set_memory(instance, 0, "a", 40 * GIB, NULL), FACET_OK);
    assert_int_equal(limit_ops()->set_memory(instance, 0, "b", 24 * GIB + 1, NULL), FACET_NO_SPACE);
    assert_int_equal(limit_ops()->set_memory(instance, 0, "b", 24 * GIB, NULL), FACET_OK);
    assert_int_equal(limit_ops()->set_memory(instance, 0, "c", 1, NULL), FACET_NO_SPACE);
    node_close(instance);
}

static void limits_refuse_wrong_arguments(void **state)
{
    struct facet_provider_instance *instance = start_node("");
    struct facet_worker_limit granted = {.size = sizeof granted};

    assert_int_equal(limit_ops()->set_compute(instance, 0, "a", 0, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(limit_ops()->set_compute(instance, 0, "a", 1001, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(limit_ops()->set_compute(instance, 0, "a", UINT32_MAX, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(limit_ops()->set_memory(instance, 0, "a", 0, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(limit_ops()->set_memory(instance, 0, "a", 64 * GIB + 1, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(limit_ops()->set_memory(instance, 0, NULL, GIB, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(limit_ops()->set_memory(instance, 0, "", GIB, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(limit_ops()->set_memory(instance, 0, "no/slash", GIB, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(limit_ops()->set_memory(instance, 8, "a", GIB, NULL), FACET_NOT_FOUND);
    assert_int_equal(limit_ops()->get(instance, 0, "a", &granted, NULL), FACET_NOT_FOUND);
    assert_int_equal(limit_ops()->clear(instance, 0, "a", NULL), FACET_NOT_FOUND);
    assert_int_equal(limit_ops()->set_memory(instance, 0, "a", GIB, NULL), FACET_OK);
    assert_int_equal(limit_ops()->set_memory(instance, 0, "a", GIB, NULL), FACET_BAD_STATE);
    assert_int_equal(limit_ops()->set_compute(instance, 0, "a", 10, NULL), FACET_OK); /* compute has no limit yet */
    assert_int_equal(limit_ops()->set_compute(instance, 0, "a", 10, NULL), FACET_BAD_STATE);
    assert_int_equal(limit_ops()->get(instance, 0, "a", NULL, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(limit_ops()->clear(instance, 0, "a", NULL), FACET_OK);
    assert_int_equal(limit_ops()->clear(instance, 0, "a", NULL), FACET_NOT_FOUND);
    node_close(instance);
}

static void limits_are_listed(void **state)
{
    struct facet_provider_instance *instance = start_node("");
    struct facet_worker_limit limits[4] = {0};
    uint32_t number = 9;

    uint64_t unlimited = context_of(instance, 2, "only-a-context");
    assert_int_equal(limit_ops()->list(instance, 2, limits, sizeof *limits, 4, &number, NULL), FACET_OK);
    assert_int_equal(number, 0);
    assert_int_equal(limit_ops()->set_memory(instance, 2, "a", GIB, NULL), FACET_OK);
    assert_int_equal(limit_ops()->set_compute(instance, 2, "b", 500, NULL), FACET_OK);
    assert_int_equal(limit_ops()->list(instance, 2, limits, sizeof *limits, 1, &number, NULL), FACET_TOO_SMALL);
    assert_int_equal(number, 2);
    assert_int_equal(limit_ops()->list(instance, 2, limits, sizeof *limits, 4, &number, NULL), FACET_OK);
    assert_int_equal(number, 2);
    for (uint32_t i = 0; i < number; i++) {
        struct facet_worker_limit one = {.size = sizeof one};

        assert_int_equal(limit_ops()->get(instance, 2, limits[i].worker, &one, NULL), FACET_OK);
        assert_memory_equal(&one, &limits[i], sizeof one);
    }
    assert_int_equal(memory_ops()->destroy_context(instance, unlimited, NULL), FACET_OK);
    node_close(instance);
}

static void a_quota_holds_to_the_byte_over_all_contexts(void **state)
{
    struct facet_provider_instance *instance = start_node("");
    struct facet_memory_info info = {.size = sizeof info};
    uint64_t first, second, address, other;

    assert_int_equal(limit_ops()->set_memory(instance, 0, "a", 1000000, NULL), FACET_OK);
    first = context_of(instance, 0, "a");
    second = context_of(instance, 0, "a");
    assert_int_equal(memory_ops()->alloc(instance, first, 600000, &address, NULL), FACET_OK);
    assert_int_equal(memory_ops()->alloc(instance, second, 400001, &other, NULL), FACET_QUOTA);
    assert_int_equal(memory_ops()->alloc(instance, second, 400000, &other, NULL), FACET_OK);
    assert_int_equal(memory_ops()->alloc(instance, second, 1, &other, NULL), FACET_QUOTA);
    assert_int_equal(memory_ops()->info(instance, first, &info, NULL), FACET_OK);
    assert_true(info.total_bytes == 1000000 && info.used_bytes == 1000000);
    assert_int_equal(limit_ops()->clear(instance, 0, "a", NULL), FACET_BUSY);
    assert_int_equal(memory_ops()->destroy_context(instance, second, NULL), FACET_OK);
    assert_int_equal(memory_ops()->info(instance, first, &info, NULL), FACET_OK);
    assert_true(info.used_bytes == 600000);
    assert_int_equal(memory_ops()->destroy_context(instance, first, NULL), FACET_OK);
    assert_int_equal(limit_ops()->clear(instance, 0, "a", NULL), FACET_OK);
    node_close(instance);
}

static void a_limit_below_the_memory_in_use_is_refused(void **state)
{
    struct facet_provider_instance *instance = start_node("");
    uint64_t context = context_of(instance, 0, "a"), address;

    assert_int_equal(memory_ops()->alloc(instance, context, 5000, &address, NULL), FACET_OK);
    assert_int_equal(limit_ops()->set_memory(instance, 0, "a", 4999, NULL), FACET_NO_SPACE);
    assert_int_equal(limit_ops()->set_memory(instance, 0, "a", 5000, NULL), FACET_OK);
    assert_int_equal(memory_ops()->alloc(instance, context, 1, &address, NULL), FACET_QUOTA);
    node_close(instance); /* while the context is open */
}

static void memory_keeps_written_bytes(void **state)
{
    struct facet_provider_instance *instance = start_node("");
    uint64_t context = context_of(instance, 3, "a"), address;
    unsigned char data[4096], back[4096];

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + i / 256);
    assert_int_equal(memory_ops()->alloc(instance, context, 3 * sizeof data, &address, NULL), FACET_OK);
    assert_true(address % 256 == 0);
    assert_int_equal(memory_ops()->write(instance, context, address, data, sizeof data, NULL), FACET_OK);
    assert_int_equal(memory_ops()->copy(instance, context, address + 8192, address, sizeof data, NULL), FACET_OK);
    assert_int_equal(memory_ops()->read(instance, context, address + 8192, sizeof back, back, NULL), FACET_OK);
    assert_memory_equal(data, back, sizeof data);
    assert_int_equal(memory_ops()->fill(instance, context, address + 1, 0xab, 4094, NULL), FACET_OK);
    assert_int_equal(memory_ops()->read(instance, context, address, sizeof back, back, NULL), FACET_OK);
    assert_true(back[0] == data[0] && back[1] == 0xab && back[4094] == 0xab && back[4095] == data[4095]);
    assert_int_equal(memory_ops()->free(instance, context, address, NULL), FACET_OK);
    assert_int_equal(memory_ops()->free(instance, context, address, NULL), FACET_NOT_FOUND);
    node_close(instance);
}

static void copies_that_overlap_are_right_in_both_directions(void **state)
{
    const uint64_t bytes = (UINT64_C(5) << 20) / 2, shift = 12345;
    struct facet_provider_instance *instance = start_node("");
    uint64_t context = context_of(instance, 0, "a"), address;
    unsigned char *data = malloc(bytes + shift), *back = malloc(bytes + shift);

    assert_true(data && back);
    for (uint64_t i = 0; i < bytes + shift; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    assert_int_equal(memory_ops()->alloc(instance, context, bytes + shift, &address, NULL), FACET_OK);
    for (int up = 0; up < 2; up++) {
        uint64_t from = up ? 0 : shift, to = up ? shift : 0;

        assert_int_equal(memory_ops()->write(instance, context, address, data, bytes + shift, NULL), FACET_OK);
        assert_int_equal(memory_ops()->copy(instance, context, address + to, address + from, bytes, NULL), FACET_OK);
        assert_int_equal(memory_ops()->read(instance, context, address + to, bytes, back, NULL), FACET_OK);
        assert_memory_equal(back, data + from, bytes);
    }
    free(data);
    free(back);
    node_close(instance);
}

static void transfers_out_of_range_change_nothing(void **state)
{
    struct facet_provider_instance *instance = start_node("");
    uint64_t context = context_of(instance, 0, "a"), foreign = context_of(instance, 1, "b"), address;
    unsigned char data[256] = {1}, back[256];

    assert_int_equal(memory_ops()->alloc(instance, context, 256, &address, NULL), FACET_OK);
    assert_int_equal(memory_ops()->fill(instance, context, address, 9, 256, NULL), FACET_OK);
    assert_int_equal(memory_ops()->write(instance, context, address + 1, data, 256, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(memory_ops()->fill(instance, context, address, 1, 257, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(memory_ops()->fill(instance, context, address, 1, UINT64_MAX, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(memory_ops()->read(instance, context, UINT64_MAX, 2, back, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(memory_ops()->copy(instance, context, address, address + 255, 2, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(memory_ops()->write(instance, foreign, address, data, 1, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(memory_ops()->free(instance, foreign, address, NULL), FACET_NOT_FOUND);
    assert_int_equal(memory_ops()->free(instance, context, 0, NULL), FACET_NOT_FOUND);
    assert_int_equal(memory_ops()->write(instance, context, address, NULL, 1, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(memory_ops()->read(instance, context, address, 256, back, NULL), FACET_OK);
    for (size_t i = 0; i < sizeof back; i++)
        assert_int_equal(back[i], 9);
    node_close(instance);
}

static void allocations_refuse_wrong_arguments(void **state)
{
    struct facet_provider_instance *instance = start_node("");
    uint64_t context = context_of(instance, 0, "a"), address = 77, none = 99;

    assert_int_equal(memory_ops()->alloc(instance, context, 0, &address, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(memory_ops()->alloc(instance, context, 64 * GIB + 1, &address, NULL), FACET_NO_SPACE);
    assert_int_equal(memory_ops()->alloc(instance, context, UINT64_MAX, &address, NULL), FACET_NO_SPACE);
    assert_int_equal(memory_ops()->alloc(instance, context, 1, NULL, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(memory_ops()->alloc(instance, context + 1, 1, &address, NULL), FACET_NOT_FOUND);
    assert_true(address == 77);
    assert_int_equal(memory_ops()->create_context(instance, 0, "part", "a", &none, NULL), FACET_NOT_FOUND);
    assert_int_equal(memory_ops()->create_context(instance, 8, NULL, "a", &none, NULL), FACET_NOT_FOUND);
    assert_int_equal(memory_ops()->create_context(instance, 0, NULL, NULL, &none, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(memory_ops()->create_context(instance, 0, NULL, "a", NULL, NULL), FACET_INVALID_ARGUMENT);
    assert_true(none == 99);
    assert_int_equal(memory_ops()->destroy_context(instance, context, NULL), FACET_OK);
    assert_int_equal(memory_ops()->destroy_context(instance, context, NULL), FACET_NOT_FOUND);
    node_close(instance);
}

static void a_whole_device_can_be_filled_and_is_given_back(void **state)
{
    struct facet_provider_instance *instance = start_node("");
    uint64_t context = context_of(instance, 0, "a"), keeper = context_of(instance, 0, "b"), address;
    struct facet_memory_info info = {.size = sizeof info};

    assert_int_equal(memory_ops()->alloc(instance, context, 64 * GIB, &address, NULL), FACET_OK);
    assert_int_equal(memory_ops()->alloc(instance, keeper, 1, &address, NULL), FACET_NO_SPACE);
    assert_int_equal(memory_ops()->destroy_context(instance, context, NULL), FACET_OK);
    assert_int_equal(memory_ops()->info(instance, keeper, &info, NULL), FACET_OK);
    assert_true(info.total_bytes == 64 * GIB && info.used_bytes == 0);
    assert_int_equal(memory_ops()->alloc(instance, keeper, 64 * GIB, &address, NULL), FACET_OK);
    node_close(instance);
}

static void a_block_that_is_not_aligned_is_aligned(void **state)
{
    struct facet_provider_instance *instance = start_node("misaligned=1");
    uint64_t context = context_of(instance, 0, "a"), address;
    unsigned char data[1000] = {5}, back[1000] = {0};

    assert_int_equal(memory_ops()->alloc(instance, context, sizeof data, &address, NULL), FACET_OK);
    assert_true(address % 256 == 0);
    assert_int_equal(memory_ops()->write(instance, context, address, data, sizeof data, NULL), FACET_OK);
    assert_int_equal(memory_ops()->read(instance, context, address, sizeof back, back, NULL), FACET_OK);
    assert_memory_equal(data, back, sizeof back);
    assert_int_equal(memory_ops()->free(instance, context, address, NULL), FACET_OK);
    node_close(instance);
}

/* Calls each memory operation once. Returns the first status that is not FACET_OK, with its error. */
static enum facet_status walk_memory(struct facet_provider_instance *instance, struct facet_error *error)
{
    uint64_t context, address, back;
    enum facet_status status = memory_ops()->create_context(instance, 0, NULL, "w", &context, error), end;
    struct facet_memory_info info = {.size = sizeof info};

    if (status != FACET_OK)
        return status;
    status = memory_ops()->info(instance, context, &info, error);
    if (status == FACET_OK)
        status = memory_ops()->alloc(instance, context, 4096, &address, error);
    if (status == FACET_OK)
        status = memory_ops()->fill(instance, context, address, 3, 4096, error);
    if (status == FACET_OK)
        status = memory_ops()->read(instance, context, address, sizeof back, &back, error);
    if (status == FACET_OK)
        status = memory_ops()->free(instance, context, address, error);
    end = memory_ops()->destroy_context(instance, context, status == FACET_OK ? error : NULL);
    return status == FACET_OK ? end : status;
}

static void each_failed_runtime_call_is_reported_and_leaves_no_worker(void **state)
{
    static const char *const calls[] = {"aclInit",         "aclrtCreateContext", "aclrtSetCurrentContext",
                                        "aclrtGetMemInfo", "aclrtMalloc",        "aclrtMemset",
                                        "aclrtMemcpy",     "aclrtFree"};

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct facet_provider_instance *instance = start_node("");
        struct facet_error error = {0};
        uint32_t number;
        char scenario[64];

        snprintf(scenario, sizeof scenario, "fail:%s=507899", calls[i]);
        node_scenario(scenario);
        assert_int_equal(walk_memory(instance, &error), FACET_IO);
        if (!strstr(error.message, "507899") || !strstr(error.message, "was told to fail"))
            fail_msg("%s: '%s' lacks code and text", scenario, error.message);
        node_scenario("");
        assert_int_equal(walk_memory(instance, &error), FACET_OK);
        assert_int_equal(limit_ops()->list(instance, 0, NULL, sizeof(struct facet_worker_limit), 0, &number, NULL),
                         FACET_OK);
        assert_int_equal(number, 0);
        node_close(instance);
    }
}

static void two_instances_share_the_runtime(void **state)
{
    struct facet_provider_instance *one = start_node(""), *two = node_open();
    uint64_t a = context_of(one, 0, "a"), b = context_of(two, 0, "a"), address;

    assert_int_equal(memory_ops()->destroy_context(one, a, NULL), FACET_OK);
    node_close(one);
    assert_int_equal(memory_ops()->alloc(two, b, 100, &address, NULL), FACET_OK); /* the runtime still works */
    node_close(two);
    struct facet_provider_instance *again = node_open();
    context_of(again, 0, "a");
    node_close(again);
}

static void a_renumbered_runtime_gets_no_contexts(void **state)
{
    setenv("ASCEND_RT_VISIBLE_DEVICES", "3", 1);
    struct facet_provider_instance *instance = start_node("");
    assert_false(infos[0].capabilities & FACET_CAN_MEMORY);
    assert_int_equal(memory_ops()->create_context(instance, 0, NULL, "a", &(uint64_t){0}, NULL), FACET_UNSUPPORTED);
    node_close(instance);
    unsetenv("ASCEND_RT_VISIBLE_DEVICES");
}

struct job {
    struct facet_provider_instance *instance;
    uint32_t number;
    bool passed;
};

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return false;                                                                                              \
    } while (0)

/* Calls every operation once. Returns false at the first wrong answer. */
static bool use_device(struct facet_provider_instance *instance, uint32_t number, uint32_t round)
{
    uint32_t device = (number + round) % 8, health, got;
    struct facet_device_metrics metrics = {.size = sizeof metrics};
    struct facet_worker_limit granted = {.size = sizeof granted};
    struct facet_topology_link links[28];
    struct facet_event events[4];
    unsigned char pattern = (unsigned char)(number + 1), data[300], text[4096];
    uint64_t context, address;
    char worker[32];

    snprintf(worker, sizeof worker, "w%u", number);
    CHECK(provider->device->health(instance, device, &health, NULL) == FACET_OK && health == FACET_HEALTH_OK);
    CHECK(provider->metrics->device(instance, device, &metrics, NULL) == FACET_OK && metrics.power_mw == 93700);
    CHECK(provider->device->links(instance, links, sizeof *links, 28, &got, NULL) == FACET_OK && got == 28);
    CHECK(provider->device->events(instance, 0, events, sizeof *events, 4, &got, NULL) == FACET_OK && got == 0);
    CHECK(provider->device->properties(instance, device, (char *)text, sizeof text, &got, NULL) == FACET_OK);
    CHECK(limit_ops()->set_memory(instance, device, worker, 1000, NULL) == FACET_OK);
    CHECK(limit_ops()->set_compute(instance, device, worker, 50, NULL) == FACET_OK);
    CHECK(limit_ops()->get(instance, device, worker, &granted, NULL) == FACET_OK && granted.compute_units == 1);
    CHECK(memory_ops()->create_context(instance, device, NULL, worker, &context, NULL) == FACET_OK);
    CHECK(memory_ops()->alloc(instance, context, sizeof data, &address, NULL) == FACET_OK);
    CHECK(memory_ops()->alloc(instance, context, 701, &(uint64_t){0}, NULL) == FACET_QUOTA);
    CHECK(memory_ops()->fill(instance, context, address, pattern, sizeof data, NULL) == FACET_OK);
    CHECK(memory_ops()->read(instance, context, address, sizeof data, data, NULL) == FACET_OK);
    CHECK(data[0] == pattern && data[sizeof data - 1] == pattern);
    CHECK(memory_ops()->destroy_context(instance, context, NULL) == FACET_OK);
    return limit_ops()->clear(instance, device, worker, NULL) == FACET_OK;
}

static void *use_repeatedly(void *argument)
{
    struct job *job = argument;

    job->passed = true;
    for (uint32_t round = 0; round < ROUNDS && job->passed; round++)
        job->passed = use_device(job->instance, job->number, round);
    return NULL;
}

static void eight_threads_use_everything(void **state)
{
    struct facet_provider_instance *instance = start_node("");
    struct job jobs[THREADS];
    pthread_t threads[THREADS];

    for (uint32_t i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){instance, i, false};
        assert_int_equal(pthread_create(&threads[i], NULL, use_repeatedly, &jobs[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(jobs[i].passed);
    }
    node_close(instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_are_rounded_up_and_never_oversubscribed),
        cmocka_unit_test(bytes_are_never_oversubscribed),
        cmocka_unit_test(limits_refuse_wrong_arguments),
        cmocka_unit_test(limits_are_listed),
        cmocka_unit_test(a_quota_holds_to_the_byte_over_all_contexts),
        cmocka_unit_test(a_limit_below_the_memory_in_use_is_refused),
        cmocka_unit_test(memory_keeps_written_bytes),
        cmocka_unit_test(copies_that_overlap_are_right_in_both_directions),
        cmocka_unit_test(transfers_out_of_range_change_nothing),
        cmocka_unit_test(allocations_refuse_wrong_arguments),
        cmocka_unit_test(a_whole_device_can_be_filled_and_is_given_back),
        cmocka_unit_test(a_block_that_is_not_aligned_is_aligned),
        cmocka_unit_test(each_failed_runtime_call_is_reported_and_leaves_no_worker),
        cmocka_unit_test(two_instances_share_the_runtime),
        cmocka_unit_test(a_renumbered_runtime_gets_no_contexts),
        cmocka_unit_test(eight_threads_use_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
