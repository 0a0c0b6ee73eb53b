/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof of facet/compute.h on the device `cpu`: streams, executions, pausing, ends; shares and bounds are in
 * test_shares.c. Never: asserts how long anything takes. */
#include "../../effort.h"
#include "device_time.h"

static const struct facet_range one_group = {.size = sizeof one_group, .dimensions = 1, .global = {1}, .group = {1}};

/* A running kernel that waits at its gate. */
struct gate {
    uint32_t id;
    uint64_t address, execution;
    struct facet_kernel *kernel;
};

static struct gate close_gate(uint32_t id, uint32_t stream)
{
    struct gate gate = {.id = id, .address = vgpu_memory(id, 16)};

    gate.kernel = vgpu_kernel(id, "gate", gate.address, 0);
    gate.execution = vgpu_launch(id, stream, gate.kernel, 1);
    assert_true(wait_for_status(id, gate.execution, FACET_EXECUTION_RUNNING));
    return gate;
}

static void free_gate(struct gate *gate)
{
    facet_kernel_destroy(gate->kernel);
}

/* ---- executions ---- */

static void an_execution_is_followed_to_its_end(void **state)
{
    uint64_t words, gated, execution;
    struct gate gate;

    vgpu_make(1);
    words = vgpu_memory(1, 800);
    gate = close_gate(1, 0);
    struct facet_kernel *add = vgpu_kernel(1, "add", words, 7);
    gated = vgpu_launch(1, 0, add, 100);
    execution = vgpu_launch(1, 1, add, 100);
    OK(facet_vgpu_synchronize(world.driver, 1, 1, WAIT_NS, ERROR)); /* the other stream is free */
    struct facet_execution record = vgpu_execution(1, execution);
    assert_int_equal(record.status, FACET_EXECUTION_COMPLETED);
    assert_int_equal(record.stream, 1);
    assert_int_equal(record.groups, 100);
    assert_int_equal(record.failure, FACET_OK);
    assert_string_equal(record.kernel, "add");
    assert_true(record.queued_ns > 0 && record.start_ns >= record.queued_ns && record.end_ns >= record.start_ns);
    assert_int_equal(vgpu_execution(1, gated).status, FACET_EXECUTION_QUEUED);
    assert_int_equal(vgpu_execution(1, gate.execution).status, FACET_EXECUTION_RUNNING);
    struct facet_vgpu_info info = vgpu_info(1);
    assert_int_equal(info.running, 1);
    assert_int_equal(info.queued, 1);
    assert_int_equal(info.streams_active, 1);
    REFUSED(FACET_TIMEOUT, facet_vgpu_synchronize(world.driver, 1, FACET_STREAM_ALL, MS, ERROR));
    OK(facet_vgpu_cancel(world.driver, 1, gate.execution, ERROR)); /* its work-group still runs */
    assert_int_equal(vgpu_execution(1, gated).status, FACET_EXECUTION_QUEUED);
    free_gate(&gate);
    facet_kernel_destroy(add);
}

static void a_range_is_divided_into_groups(void **state)
{
    static const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {24}, .group = {8}},
                                    uneven = {.size = sizeof uneven, .dimensions = 1, .global = {24}, .group = {7}};
    uint64_t words, execution;

    vgpu_make(1);
    words = vgpu_memory(1, 64);
    struct facet_kernel *add = vgpu_kernel(1, "add", words, 7);
    OK(facet_vgpu_execute(world.driver, 1, 0, add, &range, &execution, ERROR));
    vgpu_finish(1);
    assert_int_equal(vgpu_execution(1, execution).groups, 3);
    for (uint64_t group = 0; group < 8; group++)
        assert_int_equal(vgpu_word(1, words + 8 * group), group < 3 ? 7 : 0);
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_execute(world.driver, 1, 0, add, &uneven, &execution, ERROR));
    facet_kernel_destroy(add);
}

/* Opens a gate by a copy in another stream: an immediate copy would wait for the launch at the gate. */
static void open_gate(const struct gate *gate, uint32_t stream)
{
    const uint64_t one = 1;

    OK(facet_vgpu_enqueue_copy(world.driver, gate->id, stream, gate->address + 8, (uintptr_t)&one, sizeof one,
                               FACET_COPY_TO_DEVICE, NULL, ERROR));
}

static void streams_keep_their_order(void **state)
{
    uint64_t words;
    struct gate gate;

    vgpu_make(1);
    words = vgpu_memory(1, 64);
    gate = close_gate(1, 0);
    struct facet_kernel *add = vgpu_kernel(1, "add", words, 1);
    uint64_t first = vgpu_launch(1, 0, add, 8);
    OK(facet_vgpu_enqueue_fill(world.driver, 1, 0, words, 0xff, 64, NULL, ERROR));
    OK(facet_vgpu_enqueue_copy(world.driver, 1, 0, words, words + 8, 8, FACET_COPY_ON_DEVICE, NULL, ERROR));
    uint64_t last = vgpu_launch(1, 0, add, 8);
    open_gate(&gate, 1);
    vgpu_finish(1);
    assert_int_equal(vgpu_word(1, words), 0); /* the fill sets all bits, and adding 1 wraps around to 0 */
    assert_true(vgpu_execution(1, last).start_ns >= vgpu_execution(1, first).end_ns);
    struct facet_vgpu_info info = vgpu_info(1);
    assert_int_equal(info.launched_total, 6);
    assert_int_equal(info.completed_total, 6);
    assert_int_equal(info.failed_total + info.cancelled_total, 0);
    assert_true(info.valid & FACET_VGPU_HAS_RECORDS);
    assert_true(info.busy_ns > 0 && info.delay_ns > 0);
    free_gate(&gate);
    facet_kernel_destroy(add);
}

static void a_stream_waits_for_another(void **state)
{
    uint64_t words;
    struct gate gate;

    vgpu_make(1);
    words = vgpu_memory(1, 64);
    gate = close_gate(1, 0);
    struct facet_kernel *add = vgpu_kernel(1, "add", words, 1);
    OK(facet_vgpu_wait(world.driver, 1, 1, 0, ERROR));
    uint64_t later = vgpu_launch(1, 1, add, 1);
    REFUSED(FACET_TIMEOUT, facet_vgpu_synchronize(world.driver, 1, 1, 5 * MS, ERROR));
    assert_int_equal(vgpu_execution(1, later).status, FACET_EXECUTION_QUEUED);
    OK(facet_vgpu_cancel(world.driver, 1, later, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_wait(world.driver, 1, 0, 2, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_wait(world.driver, 1, 2, 0, ERROR));
    OK(facet_vgpu_wait(world.driver, 1, 1, 1, ERROR));
    free_gate(&gate);
    facet_kernel_destroy(add);
    OK(facet_vgpu_destroy(world.driver, 1, ERROR)); /* with its queued work */
}

static void one_execution_is_cancelled(void **state)
{
    uint64_t words, queued[3];
    struct gate gate;
    struct facet_execution record = {.size = sizeof record};

    vgpu_make(1);
    words = vgpu_memory(1, 64);
    gate = close_gate(1, 0);
    struct facet_kernel *add = vgpu_kernel(1, "add", words, 1);
    for (int i = 0; i < 3; i++)
        queued[i] = vgpu_launch(1, 0, add, 1);
    OK(facet_vgpu_cancel(world.driver, 1, queued[1], ERROR));
    open_gate(&gate, 1);
    vgpu_finish(1);
    assert_int_equal(vgpu_word(1, words), 2);
    assert_int_equal(vgpu_execution(1, queued[0]).status, FACET_EXECUTION_COMPLETED);
    assert_int_equal(vgpu_execution(1, queued[1]).status, FACET_EXECUTION_CANCELLED);
    assert_int_equal(vgpu_execution(1, queued[2]).status, FACET_EXECUTION_COMPLETED);
    assert_int_equal(vgpu_info(1).cancelled_total, 1);
    REFUSED(FACET_NOT_FOUND, facet_vgpu_cancel(world.driver, 1, queued[1], ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_cancel(world.driver, 1, queued[2], ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_cancel(world.driver, 1, 0, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_cancel(world.driver, 1, UINT64_MAX, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_cancel(world.driver, 1, queued[2] + 1000, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_get_execution(world.driver, 1, queued[2] + 1000, &record, ERROR));
    free_gate(&gate);
    facet_kernel_destroy(add);
}

/* After more launches than the driver keeps records of, the KNOWN last executions are known, the first is not found,
 * and the totals count every launch. */
static void the_last_executions_are_known(void **state)
{
    enum { LAUNCHES = 3000, KNOWN = 512 };
    static uint64_t executions[LAUNCHES];
    struct facet_execution record = {.size = sizeof record};
    uint64_t words;

    vgpu_make(1);
    words = vgpu_memory(1, 64);
    struct facet_kernel *add = vgpu_kernel(1, "add", words, 1);
    for (int i = 0; i < LAUNCHES; i++)
        executions[i] = vgpu_launch(1, 0, add, 1);
    vgpu_finish(1);
    assert_int_equal(vgpu_word(1, words), LAUNCHES);
    for (int i = LAUNCHES - KNOWN; i < LAUNCHES; i++)
        assert_int_equal(vgpu_execution(1, executions[i]).status, FACET_EXECUTION_COMPLETED);
    REFUSED(FACET_NOT_FOUND, facet_vgpu_get_execution(world.driver, 1, executions[0], &record, ERROR));
    assert_int_equal(vgpu_info(1).completed_total, LAUNCHES);
    facet_kernel_destroy(add);
}

static void bad_launches_are_refused(void **state)
{
    struct facet_range range = one_group;
    struct facet_stream_info info = {.size = sizeof info};
    struct facet_math math = {.size = sizeof math, .operation = 99};
    uint64_t words, execution = 5;

    vgpu_make(1);
    words = vgpu_memory(1, 64);
    struct facet_kernel *add = vgpu_kernel(1, "add", words, 1), *none = NULL;
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_execute(world.driver, 1, 2, add, &range, &execution, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_execute(world.driver, 1, FACET_STREAM_ALL, add, &range, &execution, ERROR));
    range.global[0] = 0;
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_execute(world.driver, 1, 0, add, &range, &execution, ERROR));
    range.global[0] = UINT64_MAX;
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_execute(world.driver, 1, 0, add, &range, &execution, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_load_kernel(world.driver, 1, world.image, "nothing", &none, ERROR));
    REFUSED(FACET_INVALID_ARGUMENT,
            facet_vgpu_enqueue_copy(world.driver, 1, 0, words, words, 8, FACET_COPY_TO_HOST, &execution, ERROR));
    REFUSED(FACET_INVALID_ARGUMENT,
            facet_vgpu_enqueue_copy(world.driver, 1, 0, words, 0, 8, FACET_COPY_TO_DEVICE, &execution, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_enqueue_fill(world.driver, 1, 0, words, 0, UINT64_MAX, &execution, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_query(world.driver, 1, 2, &info, ERROR));
    assert_true(facet_vgpu_operate(world.driver, 1, 0, &math, &execution, ERROR) != FACET_OK);
    math.size = 8;
    REFUSED(FACET_INVALID_ARGUMENT, facet_vgpu_operate(world.driver, 1, 0, &math, &execution, ERROR));
    assert_int_equal(execution, 5);
    OK(facet_vgpu_query(world.driver, 1, 0, &info, ERROR));
    assert_int_equal(info.launched, 0);
    assert_int_equal(info.idle, 1);
    facet_kernel_destroy(add);
}

/* ---- pausing and ending ---- */

static void a_paused_vgpu_stops_and_continues(void **state)
{
    enum { GROUPS = 40000, ROUNDS = 20000 };
    uint64_t sum, execution, word = 0;
    struct facet_stream_info info = {.size = sizeof info};

    vgpu_make(1);
    vgpu_make(2);
    sum = vgpu_memory(1, 64);
    struct facet_kernel *burn = vgpu_kernel(1, "burn", sum, ROUNDS);
    execution = vgpu_launch(1, 0, burn, GROUPS);
    assert_true(wait_for_status(1, execution, FACET_EXECUTION_RUNNING));
    OK(facet_vgpu_pause(world.driver, 1, ERROR));
    assert_int_equal(vgpu_execution(1, execution).status, FACET_EXECUTION_RUNNING);
    struct device_time before = device_time_now(1); /* includes the running launches */
    assert_true(before.busy_ns[0] > 0);
    vgpu_launch(1, 0, burn, 1); /* is queued */
    REFUSED(FACET_FROZEN, facet_vgpu_synchronize(world.driver, 1, 0, WAIT_NS, ERROR));
    REFUSED(FACET_FROZEN, facet_vgpu_copy(world.driver, 1, (uintptr_t)&word, sum, 8, FACET_COPY_TO_HOST, ERROR));
    REFUSED(FACET_FROZEN, facet_vgpu_fill(world.driver, 1, sum, 0, 8, ERROR));
    struct facet_kernel *other = vgpu_kernel(2, "burn", vgpu_memory(2, 8), ROUNDS);
    vgpu_launch(2, 0, other, 100);
    vgpu_finish(2); /* others are not disturbed */
    OK(facet_vgpu_query(world.driver, 1, 0, &info, ERROR));
    assert_int_equal(info.completed, 0);
    struct device_time paused = device_time_now(1);
    assert_true(paused.active_ns > before.active_ns);
    assert_int_equal(paused.busy_ns[0], before.busy_ns[0]);
    OK(facet_vgpu_resume(world.driver, 1, ERROR));
    vgpu_finish(1);
    assert_int_equal(vgpu_execution(1, execution).status, FACET_EXECUTION_COMPLETED);
    assert_int_equal(vgpu_execution(1, execution).groups, GROUPS);
    facet_kernel_destroy(burn);
    facet_kernel_destroy(other);
}

/* Destroying a vGPU, paused or not, ends its allocations and its queued and running kernels. The next vGPU gets the
 * memory. */
static void destroying_a_vgpu_ends_its_work_and_memory(void **state)
{
    struct facet_driver_device device = {.size = sizeof device};

    for (int paused = 0; paused < 2; paused++) {
        vgpu_make(1);
        struct facet_kernel *burn = vgpu_kernel(1, "burn", vgpu_memory(1, 16 * MIB), 20000);
        uint64_t execution = vgpu_launch(1, 0, burn, 1u << 30);
        for (int i = 0; i < 10; i++)
            vgpu_launch(1, (uint32_t)i % 2, burn, 1u << 30);
        assert_true(wait_for_status(1, execution, FACET_EXECUTION_RUNNING));
        if (paused)
            OK(facet_vgpu_pause(world.driver, 1, ERROR));
        OK(facet_vgpu_destroy(world.driver, 1, ERROR));
        facet_kernel_destroy(burn);
    }
    assert_true(facet_driver_get_device(world.driver, 0, &device));
    assert_int_equal(device.vgpus, 0);
    assert_int_equal(device.promised_bytes, 0);
}

static void *synchronize_forever(void *result)
{
    *(enum facet_status *)result = facet_vgpu_synchronize(world.driver, 1, FACET_STREAM_ALL, FACET_FOREVER, NULL);
    return NULL;
}

/* A thread that waits for a vGPU is released when the vGPU is destroyed. */
static void destroying_a_vgpu_ends_the_waits_for_it(void **state)
{
    enum facet_status status = FACET_INTERNAL;
    pthread_t thread;

    vgpu_make(1);
    struct facet_kernel *burn = vgpu_kernel(1, "burn", vgpu_memory(1, 8), 20000);
    uint64_t execution = vgpu_launch(1, 0, burn, 1u << 30);
    assert_true(wait_for_status(1, execution, FACET_EXECUTION_RUNNING));
    assert_int_equal(pthread_create(&thread, NULL, synchronize_forever, &status), 0);
    nap(20 * MS);
    OK(facet_vgpu_destroy(world.driver, 1, ERROR));
    pthread_join(thread, NULL);
    assert_true(status == FACET_OK || status == FACET_NOT_FOUND);
    facet_kernel_destroy(burn);
}

/* ---- priorities and shares ---- */

static void a_stream_of_higher_priority_goes_first(void **state)
{
    uint64_t low, high;

    vgpu_make(1);
    OK(facet_vgpu_set_stream_priority(world.driver, 1, 1, FACET_PRIORITY_HIGH, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_set_stream_priority(world.driver, 1, 1, 3, ERROR));
    struct facet_kernel *burn = vgpu_kernel(1, "burn", vgpu_memory(1, 8), 20000);
    low = vgpu_launch(1, 0, burn, 1u << 30);
    assert_true(wait_for_status(1, low, FACET_EXECUTION_RUNNING));
    high = vgpu_launch(1, 1, burn, 10);
    OK(facet_vgpu_synchronize(world.driver, 1, 1, WAIT_NS, ERROR));
    assert_int_equal(vgpu_execution(1, high).status, FACET_EXECUTION_COMPLETED);
    assert_int_equal(vgpu_execution(1, low).status, FACET_EXECUTION_RUNNING);
    OK(facet_vgpu_cancel(world.driver, 1, low, ERROR));
    vgpu_finish(1);
    assert_int_equal(vgpu_execution(1, low).status, FACET_EXECUTION_CANCELLED);
    facet_kernel_destroy(burn);
}

static void compute_virtualization_can_be_off(void **state)
{
    struct facet_driver_config config = world_config();
    struct facet_vgpu_config shared = vgpu_config(2);

    config.off = FACET_OFF_COMPUTE;
    world_open(&config);
    shared.request_milli = 100;
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_create(world.driver, &shared, NULL, ERROR));
    vgpu_make(1);
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_set_share(world.driver, 1, 100, 1000, ERROR));
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_set_priority(world.driver, 1, 1, ERROR));
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_set_bounds(world.driver, 1, 1, 1, ERROR));
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_pause(world.driver, 1, ERROR));
    uint64_t words = vgpu_memory(1, 64);
    struct facet_kernel *add = vgpu_kernel(1, "add", words, 3);
    vgpu_launch(1, 0, add, 8);
    vgpu_finish(1);
    assert_int_equal(vgpu_word(1, words + 56), 3);
    facet_kernel_destroy(add);
    world_close();
}

/* ---- many at once ---- */

#define USERS       64
#define USER_ROUNDS effort(40, 10)

static atomic_uint wrong_infos, wrong_answers, executions;

/* Counts a status that is neither success, nor FACET_NOT_FOUND because another thread has destroyed the vGPU, nor one
 * of the two that the call may also have here; FACET_OK stands for none. Prints the first of them. */
static enum facet_status check_answer(const char *call, enum facet_status status, enum facet_status also,
                                      enum facet_status or)
{
    if (status != FACET_OK && status != FACET_NOT_FOUND && status != also && status != or
        &&atomic_fetch_add(&wrong_answers, 1) < 10)
        print_error("# %s: %s\n", call, facet_status_name(status));
    return status;
}

#define ANSWER(call, also, or) check_answer(#call, call, FACET_##also, FACET_## or)

/* Another thread may have destroyed the vGPU and created it anew since `address` was allocated: then the memory, and
 * the kernel, are not of this vGPU. */
static uint64_t launch_in_shared_vgpu(uint32_t id, uint32_t stream, uint64_t address, struct facet_kernel **ret_kernel)
{
    struct facet_driver *driver = world.driver;
    uint64_t value = 1, execution = 0;

    ANSWER(facet_vgpu_fill(driver, id, address, 0, 4096, NULL), FROZEN, OUT_OF_RANGE);
    if (ANSWER(facet_vgpu_load_kernel(driver, id, world.image, "add", ret_kernel, NULL), OK, OK) != FACET_OK)
        return 0;
    ANSWER(facet_kernel_set_memory(*ret_kernel, 0, address, NULL), OK, OK);
    ANSWER(facet_kernel_set_value(*ret_kernel, 1, &value, sizeof value, NULL), OK, OK);
    if (ANSWER(facet_vgpu_execute(driver, id, stream, *ret_kernel, &one_group, &execution, NULL), INVALID_ARGUMENT,
               OUT_OF_RANGE) == FACET_OK)
        atomic_fetch_add(&executions, 1);
    return execution;
}

static void change_shared_vgpu(uint32_t id, uint32_t change, uint64_t execution)
{
    struct facet_driver *driver = world.driver;

    switch (change) {
    case 0:
        ANSWER(facet_vgpu_destroy(driver, id, NULL), OK, OK);
        break;
    case 1:
        ANSWER(facet_vgpu_pause(driver, id, NULL), TIMEOUT, OK);
        ANSWER(facet_vgpu_resume(driver, id, NULL), OK, OK);
        break;
    case 2:
        ANSWER(facet_vgpu_set_share(driver, id, 100, 1000, NULL), OK, OK);
        ANSWER(facet_vgpu_set_bounds(driver, id, 1, 1, NULL), OK, OK);
        break;
    case 3:
        ANSWER(facet_vgpu_cancel(driver, id, execution, NULL), OK, OK);
        break;
    case 4:
        ANSWER(facet_vgpu_compact(driver, id, NULL, NULL, NULL), OK, OK);
        break;
    case 5:
        ANSWER(facet_vgpu_wait(driver, id, 0, 1, NULL), OK, OK);
        break;
    default:
        ANSWER(facet_vgpu_synchronize(driver, id, FACET_STREAM_ALL, WAIT_NS, NULL), FROZEN, OK);
    }
}

/* Creates, uses and destroys vGPUs that other threads use, too, so that calls may be refused as they say. */
static void *use_shared_vgpus(void *argument)
{
    struct facet_driver *driver = world.driver;
    uint64_t seed = (uintptr_t)argument * 2654435761u + 1;

    for (uint32_t i = 0; i < USER_ROUNDS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t id = 1 + (uint32_t)(seed >> 33) % 6;
        struct facet_vgpu_config config = vgpu_config(id);
        struct facet_vgpu_info info = {.size = sizeof info};
        struct facet_kernel *kernel = NULL;
        uint64_t address = 0, execution = 0;

        config.memory_bytes = 4 * MIB;
        if (ANSWER(facet_vgpu_allocate(driver, id, 4096, NULL, &address, NULL), OK, OK) == FACET_NOT_FOUND)
            ANSWER(facet_vgpu_create(driver, &config, NULL, NULL), ALREADY_EXISTS, QUOTA);
        if (address)
            execution = launch_in_shared_vgpu(id, (uint32_t)(seed >> 40) % 2, address, &kernel);
        change_shared_vgpu(id, (uint32_t)(seed >> 50) % 8, execution);
        if (ANSWER(facet_vgpu_get_info(driver, id, &info, NULL), OK, OK) == FACET_OK && info.id != id)
            atomic_fetch_add(&wrong_infos, 1);
        if (address)
            ANSWER(facet_vgpu_free(driver, id, address, NULL), OK, OK);
        facet_kernel_destroy(kernel);
    }
    return NULL;
}

static void many_threads_use_everything(void **state)
{
    struct facet_driver_device device = {.size = sizeof device};
    pthread_t threads[USERS];
    uint32_t count = 0;

    for (uintptr_t i = 0; i < USERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_shared_vgpus, (void *)i), 0);
    for (int i = 0; i < USERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong_infos, 0);
    assert_int_equal(wrong_answers, 0);
    assert_true(executions > 0);
    for (uint32_t id = 1; id <= 6; id++)
        (void)facet_vgpu_destroy(world.driver, id, NULL);
    OK(facet_vgpu_list(world.driver, NULL, 0, &count, ERROR));
    assert_int_equal(count, 0);
    assert_true(facet_driver_get_device(world.driver, 0, &device));
    assert_int_equal(device.vgpus, 0);
    assert_int_equal(device.promised_bytes, 0);
    assert_int_equal(device.lost, 0);
    vgpu_make(1); /* all of it is free again */
    vgpu_memory(1, 16 * MIB);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(an_execution_is_followed_to_its_end),
        WITH_WORLD(a_range_is_divided_into_groups),
        WITH_WORLD(streams_keep_their_order),
        WITH_WORLD(a_stream_waits_for_another),
        WITH_WORLD(one_execution_is_cancelled),
        WITH_WORLD(the_last_executions_are_known),
        WITH_WORLD(bad_launches_are_refused),
        WITH_WORLD(a_paused_vgpu_stops_and_continues),
        WITH_WORLD(destroying_a_vgpu_ends_its_work_and_memory),
        WITH_WORLD(destroying_a_vgpu_ends_the_waits_for_it),
        WITH_WORLD(a_stream_of_higher_priority_goes_first),
        cmocka_unit_test(compute_virtualization_can_be_off),
        WITH_WORLD(many_threads_use_everything),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
