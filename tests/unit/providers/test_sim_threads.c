/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about threads that share one instance of the simulated devices. Run under the thread sanitizer. */
#include <pthread.h>

#include "../../effort.h"
#include "sim_world.h"

#define THREADS 8
#define ROUNDS  effort(40, 10)

static struct world world;

/* Uses a context of the thread's own, and in each round a new stream and new memory. */
static void *use_context(void *argument)
{
    const struct facet_memory_ops *memory = world.provider->memory;
    const struct facet_execution_ops *execution = world.provider->execution;
    uint64_t number = *(const uint64_t *)argument, context, module, stream, address, words[64];
    char worker[8];

    snprintf(worker, sizeof worker, "w%u", (unsigned)number % 4);
    if (memory->create_context(world.instance, (uint32_t)number % 2, NULL, worker, &context, NULL) != FACET_OK ||
        execution->load(world.instance, context, world_image, sizeof world_image - 1, &module, NULL) != FACET_OK)
        return NULL;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct facet_launch launch = world_request(module, "fill", 1);
        uint64_t arguments[3] = {0, 64, number * 1000 + round};

        launch.argument_bytes = sizeof arguments;
        if (memory->alloc(world.instance, context, sizeof words, &address, NULL) != FACET_OK ||
            execution->create_stream(world.instance, context, &stream, NULL) != FACET_OK)
            return NULL;
        arguments[0] = address;
        if (execution->launch(world.instance, context, stream, &launch, arguments, NULL) != FACET_OK ||
            execution->synchronize(world.instance, context, stream, UINT64_C(10000000000), NULL) != FACET_OK ||
            memory->read(world.instance, context, address, sizeof words, words, NULL) != FACET_OK ||
            words[0] != arguments[2] || words[63] != arguments[2] ||
            execution->destroy_stream(world.instance, context, stream, NULL) != FACET_OK ||
            memory->free(world.instance, context, address, NULL) != FACET_OK)
            return NULL;
    }
    return memory->destroy_context(world.instance, context, NULL) == FACET_OK ? argument : NULL;
}

static void contexts_of_eight_threads_are_independent(void **state)
{
    uint64_t numbers[THREADS];
    pthread_t threads[THREADS];
    void *result;
    (void)state;

    world_start(&world, (struct world_setup){.clock = "1000"});
    for (uint64_t i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, use_context, &numbers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, &numbers[i]);
    }
    for (uint32_t device = 0; device < 2; device++)
        assert_int_equal(world_metrics(&world, device).memory_used_bytes, 0);
    world_end(&world);
}

/* Ends the context after a pause, in which the other thread begins to wait for a kernel that never completes. */
static void *end_context(void *argument)
{
    (void)argument;
    usleep(50000);
    return world.provider->memory->destroy_context(world.instance, world.context, NULL) == FACET_OK ? argument : NULL;
}

static void a_waiting_thread_survives_the_end_of_its_context(void **state)
{
    pthread_t thread;
    void *result;
    (void)state;

    world_start(&world,
                (struct world_setup){.clock = "1000",
                                     .faults = "{\"faults\": [{\"at_ns\": 0, \"device\": 0, \"kind\": \"hang\"}]}"});
    world.context = world_context(&world, 0, NULL, "a");
    world.module = world_module(&world, world.context);
    world.stream = world_stream(&world, world.context);
    world_launch(&world, world.context, world.module, world.stream, "compute", 1);
    assert_int_equal(pthread_create(&thread, NULL, end_context, &world), 0);
    assert_int_equal(world.provider->execution->synchronize(world.instance, world.context, world.stream,
                                                            UINT64_C(60000000000), NULL),
                     FACET_NOT_FOUND);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &world);
    world_end(&world);
}

/* Launches 200 additions, and repeats the launches that are refused while the worker is saved and restored. */
static void *launch_additions(void *argument)
{
    uint64_t *address = argument;
    const struct facet_execution_ops *execution = world.provider->execution;
    struct facet_launch launch = world_request(world.module, "add", 1);
    const uint64_t arguments[3] = {*address, 1, 1};

    launch.argument_bytes = sizeof arguments;
    for (unsigned done = 0; done < 200;) {
        enum facet_status status =
            execution->launch(world.instance, world.context, world.stream, &launch, arguments, NULL);

        if (status == FACET_OK)
            done++;
        /* These three come while the worker is saved, is off the device, or is restored. */
        else if (status != FACET_BUSY && status != FACET_BAD_STATE && status != FACET_NOT_FOUND)
            return NULL;
    }
    return argument;
}

static void snapshots_beside_launches_lose_no_addition(void **state)
{
    const struct facet_snapshot_ops *snapshot = world_provider()->snapshot;
    pthread_t thread;
    void *result;
    (void)state;

    world_start(&world, (struct world_setup){.clock = "1000"});
    world.context = world_context(&world, 0, NULL, "a");
    world.module = world_module(&world, world.context);
    world.stream = world_stream(&world, world.context);
    uint64_t address = world_alloc(&world, world.context, 8);
    assert_int_equal(pthread_create(&thread, NULL, launch_additions, &address), 0);
    for (int i = 0; i < 20; i++) {
        OK(&world, snapshot->snapshot(world.instance, 0, "a", -1, &world.error));
        OK(&world, snapshot->resume(world.instance, 0, "a", -1, &world.error));
    }
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &address);
    world_synchronize(&world, world.context, world.stream);
    assert_int_equal(world_word(&world, world.context, address), 200);
    assert_int_equal(world_state(&world, world.context, world.stream).completed, 200);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_of_eight_threads_are_independent),
        cmocka_unit_test(a_waiting_thread_survives_the_end_of_its_context),
        cmocka_unit_test(snapshots_beside_launches_lose_no_addition),
    };

    return cmocka_run_group_tests_name("sim threads", tests, NULL, NULL);
}
