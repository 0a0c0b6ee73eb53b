/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a monitor sees through the twin, Facet's libnvidia-ml.so.1, in and outside a vGPU.
 *
 * Owns: a machine of two GPUs of 8 GB and one of 80 GB, vGPUs on them, tenants and neighbours.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "limiter/owner_inside.h"
#include "nvml_twin.h"

static const char *fake, *fake_old;

static void make_vgpu(struct test_segment *vgpu, const char *address, uint64_t memory_bytes)
{
    assert_true(test_segment_make(vgpu, address, memory_bytes));
}

static void begin_monitor(unsigned devices)
{
    unsigned count;

    CHECK(nvml.nvmlInit_v2() == NVML_SUCCESS);
    CHECK(nvml.nvmlDeviceGetCount_v2(&count) == NVML_SUCCESS);
    CHECK(count == devices);
}

/* Whether each form of the list of a device's compute processes has exactly `pids`, which ends with 0, in any order. */
static bool lists_exactly(nvmlDevice_t device, const pid_t *pids)
{
    nvmlProcessInfo_t v2[16], v3[16];
    nvmlProcessInfo_v1_t v1[16];
    unsigned c1 = 16, c2 = 16, c3 = 16, wanted = 0;

    if (nvml.nvmlDeviceGetComputeRunningProcesses(device, &c1, v1) ||
        nvml.nvmlDeviceGetComputeRunningProcesses_v2(device, &c2, v2) ||
        nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &c3, v3) || c1 != c2 || c2 != c3)
        return false;
    for (; pids[wanted]; wanted++) {
        bool found = false;

        for (unsigned i = 0; i < c1; i++)
            found |= v1[i].pid == (unsigned)pids[wanted] && v2[i].pid == v1[i].pid && v3[i].pid == v1[i].pid &&
                     v1[i].usedGpuMemory == v3[i].usedGpuMemory && v3[i].gpuInstanceId == NVML_NO_INSTANCE;
        if (!found)
            return false;
    }
    return wanted == c1;
}

static void see_all(void *context)
{
    const pid_t *neighbour = context;
    nvmlMemory_t memory;

    begin_monitor(3);
    CHECK(nvml.nvmlDeviceGetMemoryInfo(test_device(1), &memory) == NVML_SUCCESS);
    CHECK(memory.total == 8 * GIB + RESERVED && memory.used == 100 * MIB + RESERVED);
    CHECK(lists_exactly(test_device(1), (pid_t[]){*neighbour, 0}));
}

static void test_outside_a_vgpu_all_is_seen(void **state)
{
    pid_t neighbour = test_machine_neighbour(1, 100 * MIB);

    assert_true(test_monitor(fake, NULL, see_all, &neighbour));
    test_machine_dismiss(neighbour);
}

/* One vGPU of 1 GB on the second GPU. */
struct single {
    struct test_segment vgpu;
    pid_t tenant, other; /* the management library does not list the other tenant */
    pid_t neighbour;
};

static void see_own_device(void *context)
{
    char own[TEST_UUID_SIZE], foreign[TEST_UUID_SIZE], uuid[NVML_DEVICE_UUID_BUFFER_SIZE];
    nvmlDevice_t device, found, near[4];
    unsigned index, count;
    nvmlUUID_t wanted = {.version = VENDOR_NVML_VERSION(nvmlUUID_t, 1), .type = NVML_UUID_TYPE_ASCII};

    begin_monitor(1);
    test_machine_uuid(1, own);
    test_machine_uuid(0, foreign);
    device = test_device(0);
    CHECK(nvml.nvmlDeviceGetUUID(device, uuid, sizeof uuid) == NVML_SUCCESS && strcmp(uuid, own) == 0);
    CHECK(nvml.nvmlDeviceGetHandleByIndex_v2(1, &found) == NVML_ERROR_INVALID_ARGUMENT);
    CHECK(nvml.nvmlDeviceGetIndex(device, &index) == NVML_SUCCESS && index == 0);
    CHECK(nvml.nvmlDeviceGetHandleByUUID(own, &found) == NVML_SUCCESS && found == device);
    CHECK(nvml.nvmlDeviceGetHandleByUUID(foreign, &found) == NVML_ERROR_NOT_FOUND);
    memcpy(wanted.value.str, foreign, sizeof wanted.value.str);
    CHECK(nvml.nvmlDeviceGetHandleByUUIDV(&wanted, &found) == NVML_ERROR_NOT_FOUND);
    CHECK(nvml.nvmlDeviceGetHandleByPciBusId_v2("00000000:02:00.0", &found) == NVML_SUCCESS && found == device);
    CHECK(nvml.nvmlDeviceGetHandleByPciBusId_v2("00000000:01:00.0", &found) == NVML_ERROR_NOT_FOUND);
    CHECK(nvml.nvmlDeviceGetHandleBySerial("1650000001", &found) == NVML_SUCCESS && found == device);
    CHECK(nvml.nvmlDeviceGetHandleBySerial("1650000000", &found) == NVML_ERROR_NOT_FOUND);
    CHECK(nvml.nvmlDeviceGetHandleByUUID(NULL, &found) == NVML_ERROR_INVALID_ARGUMENT);
    CHECK(nvml.nvmlDeviceGetHandleByUUID(own, NULL) == NVML_ERROR_INVALID_ARGUMENT);

    count = 0;
    CHECK(nvml.nvmlDeviceGetTopologyNearestGpus(device, NVML_TOPOLOGY_SINGLE, &count, NULL) == NVML_SUCCESS);
    CHECK(count == 0);
    count = 4;
    CHECK(nvml.nvmlSystemGetTopologyGpuSet(0, &count, near) == NVML_SUCCESS && count == 1 && near[0] == device);
}

static void see_memory(void *context)
{
    nvmlMemory_v2_t v2 = {.version = VENDOR_NVML_VERSION(nvmlMemory_v2_t, 2)};
    nvmlDevice_t device;
    nvmlMemory_t v1;

    begin_monitor(1);
    device = test_device(0);
    CHECK(nvml.nvmlDeviceGetMemoryInfo(device, &v1) == NVML_SUCCESS);
    CHECK(v1.total == GIB && v1.used == 700 * MIB);
    /* The neighbour leaves 200 MB of the device's memory, which is less than what is left of the quota. */
    CHECK(v1.free == 200 * MIB);
    CHECK(nvml.nvmlDeviceGetMemoryInfo_v2(device, &v2) == NVML_SUCCESS);
    CHECK(v2.total == GIB && v2.used == 700 * MIB && v2.free == 200 * MIB && v2.reserved == 0);
    v2.version = 3;
    CHECK(nvml.nvmlDeviceGetMemoryInfo_v2(device, &v2) == NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    CHECK(nvml.nvmlDeviceGetMemoryInfo(device, NULL) == NVML_ERROR_INVALID_ARGUMENT);
    CHECK(nvml.nvmlShutdown() == NVML_SUCCESS);
    CHECK(nvml.nvmlDeviceGetMemoryInfo(device, &v1) == NVML_ERROR_UNINITIALIZED);
}

static void see_processes(void *context)
{
    const struct single *single = context;
    nvmlProcessDetail_v1_t details[4];
    nvmlProcessDetailList_v1_t list = {.version = VENDOR_NVML_VERSION(nvmlProcessDetailList_v1_t, 1),
                                       .mode = NVML_PROCESS_MODE_COMPUTE,
                                       .numProcArrayEntries = 4,
                                       .procArray = details};
    nvmlProcessInfo_t entries[2];
    nvmlDevice_t device;
    unsigned count = 0;

    begin_monitor(1);
    device = test_device(0);
    CHECK(lists_exactly(device, (pid_t[]){single->tenant, single->other, 0}));
    CHECK(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL) == NVML_ERROR_INSUFFICIENT_SIZE);
    CHECK(count == 2);
    count = 1;
    CHECK(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, entries) == NVML_ERROR_INSUFFICIENT_SIZE);
    count = 2;
    CHECK(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, entries) == NVML_SUCCESS && count == 2);
    /* The first process's memory is what the library reports. The library does not list the second process: its memory
     * is what the limiter counts. */
    CHECK(entries[0].pid == (unsigned)single->tenant && entries[0].usedGpuMemory == 400 * MIB);
    CHECK(entries[1].pid == (unsigned)single->other && entries[1].usedGpuMemory == 300 * MIB);
    CHECK(nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(device, &count, entries) == NVML_SUCCESS && count == 0);

    CHECK(nvml.nvmlDeviceGetRunningProcessDetailList(device, &list) == NVML_SUCCESS);
    CHECK(list.numProcArrayEntries == 2 && details[0].pid == (unsigned)single->tenant);
    list.version = VENDOR_NVML_VERSION(nvmlProcessDetailList_v1_t, 9);
    CHECK(nvml.nvmlDeviceGetRunningProcessDetailList(device, &list) == NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

/* A monitor maps the segment's files, but never for writing, and locks no slot. */
static void take_no_slot(void *context)
{
    const struct single *single = context;
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    unsigned mappings = 0;

    begin_monitor(1);
    test_device(0);
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps)) {
        const char *path = strchr(line, '/');

        /* This ignores inherited mappings, which the parent made as the segments' owner. */
        if (!path || strncmp(path, single->vgpu.dir, strlen(single->vgpu.dir)) != 0 || strstr(line, " rw-s "))
            continue;
        mappings++;
        CHECK(strstr(line, " r--s ") != NULL);
    }
    CHECK(mappings == 2); /* of the files policy and usage */
    struct facet_usage_totals totals;
    facet_owner_totals(single->vgpu.owner, &totals);
    CHECK(totals.processes == 2);
}

static void make_single(struct single *single)
{
    char uuid[TEST_UUID_SIZE];

    test_machine_uuid(1, uuid);
    make_vgpu(&single->vgpu, uuid, GIB);
    single->tenant = test_tenant((struct test_tenant){&single->vgpu, 1, 400 * MIB, 400 * MIB, true});
    single->other = test_tenant((struct test_tenant){&single->vgpu, 1, 0, 300 * MIB, false});
    single->neighbour = test_machine_neighbour(1, 8 * GIB - 600 * MIB);
}

static void remove_single(struct single *single)
{
    test_machine_dismiss(single->tenant);
    test_machine_dismiss(single->other);
    test_machine_dismiss(single->neighbour);
    test_segment_remove(&single->vgpu);
}

static void test_one_vgpu_is_the_only_device(void **state)
{
    struct single single;

    make_single(&single);
    assert_true(test_monitor(fake, single.vgpu.dir, see_own_device, &single));
    assert_true(test_monitor(fake, single.vgpu.dir, see_memory, &single));
    assert_true(test_monitor(fake, single.vgpu.dir, see_processes, &single));
    assert_true(test_monitor(fake, single.vgpu.dir, take_no_slot, &single));
    remove_single(&single);
}

static void see_survivor(void *context)
{
    nvmlMemory_v2_t v2 = {.version = VENDOR_NVML_VERSION(nvmlMemory_v2_t, 2)};
    const struct single *single = context;
    nvmlMemory_t v1;

    begin_monitor(1);
    CHECK(lists_exactly(test_device(0), (pid_t[]){single->other, 0}));
    CHECK(nvml.nvmlDeviceGetMemoryInfo(test_device(0), &v1) == NVML_SUCCESS);
    CHECK(v1.used == 300 * MIB && v1.free == 600 * MIB);
    CHECK(nvml.nvmlDeviceGetMemoryInfo_v2(test_device(0), &v2) == NVML_SUCCESS);
    CHECK(v2.used == v1.used && v2.free == v1.free);
}

/*
 * A slot whose process was killed belongs to no process, even before it is cleared: the process id may be reused by
 * now, and the memory is free.
 */
static void test_a_killed_tenant_is_not_listed(void **state)
{
    struct single single;

    make_single(&single);
    test_machine_dismiss(single.tenant);
    assert_true(test_monitor(fake, single.vgpu.dir, see_survivor, &single));
    single.tenant = test_machine_neighbour(0, MIB);
    remove_single(&single);
}

static void see_destroyed(void *context)
{
    nvmlDevice_t device;
    nvmlMemory_t memory;

    begin_monitor(1);
    device = test_device(0);
    facet_owner_retire(((struct single *)context)->vgpu.owner);
    CHECK(nvml.nvmlDeviceGetMemoryInfo(device, &memory) == NVML_ERROR_GPU_IS_LOST);
}

static void test_a_destroyed_vgpu_is_reported_as_lost(void **state)
{
    struct single single;

    make_single(&single);
    assert_true(test_monitor(fake, single.vgpu.dir, see_destroyed, &single));
    remove_single(&single);
}

struct pair {
    struct test_segment vgpus[2];
    pid_t tenants[2];
};

static void see_two(void *context)
{
    const struct pair *pair = context;
    nvmlDevice_t near[4];
    nvmlMemory_t memory;
    unsigned index, count = 4;
    char uuid[NVML_DEVICE_UUID_BUFFER_SIZE], wanted[TEST_UUID_SIZE];

    begin_monitor(2);
    for (unsigned i = 0; i < 2; i++) {
        test_machine_uuid(1 - i, wanted);
        CHECK(nvml.nvmlDeviceGetUUID(test_device(i), uuid, sizeof uuid) == NVML_SUCCESS && strcmp(uuid, wanted) == 0);
        CHECK(nvml.nvmlDeviceGetIndex(test_device(i), &index) == NVML_SUCCESS && index == i);
        CHECK(nvml.nvmlDeviceGetMemoryInfo(test_device(i), &memory) == NVML_SUCCESS);
        CHECK(memory.total == (i + 1) * GIB && memory.used == (i + 1) * 10 * MIB);
        CHECK(lists_exactly(test_device(i), (pid_t[]){pair->tenants[i], 0}));
    }
    CHECK(nvml.nvmlDeviceGetTopologyNearestGpus(test_device(0), NVML_TOPOLOGY_SINGLE, &count, near) == NVML_SUCCESS);
    CHECK(count == 1 && near[0] == test_device(1));
}

/* A monitor sees the devices in the order of the vGPUs, whatever their order on the machine. */
static void test_devices_come_in_the_order_of_the_vgpus(void **state)
{
    struct pair pair;
    char uuid[TEST_UUID_SIZE], dirs[256];

    for (unsigned i = 0; i < 2; i++) {
        test_machine_uuid(1 - i, uuid);
        make_vgpu(&pair.vgpus[i], uuid, (i + 1) * GIB);
        pair.tenants[i] =
            test_tenant((struct test_tenant){&pair.vgpus[i], 1 - i, (i + 1) * 10 * MIB, (i + 1) * 10 * MIB, false});
    }
    snprintf(dirs, sizeof dirs, "%s:%s", pair.vgpus[0].dir, pair.vgpus[1].dir);
    assert_true(test_monitor(fake, dirs, see_two, &pair));
    for (unsigned i = 0; i < 2; i++) {
        test_machine_dismiss(pair.tenants[i]);
        test_segment_remove(&pair.vgpus[i]);
    }
}

static void see_old(void *context)
{
    const struct single *single = context;
    nvmlMemory_v2_t v2 = {.version = VENDOR_NVML_VERSION(nvmlMemory_v2_t, 2)};

    begin_monitor(1);
    CHECK(lists_exactly(test_device(0), (pid_t[]){single->tenant, single->other, 0}));
    CHECK(nvml.nvmlDeviceGetMemoryInfo_v2(test_device(0), &v2) == NVML_ERROR_FUNCTION_NOT_FOUND);
}

/* Programs use the newest form of a list that the twin exports, so this form must work with an old library, too. */
static void test_an_old_library_gets_the_newest_lists(void **state)
{
    struct single single;

    make_single(&single);
    assert_true(test_monitor(fake_old, single.vgpu.dir, see_old, &single));
    remove_single(&single);
}

static void see_nothing(void *context)
{
    unsigned count;

    CHECK(nvml.nvmlInit_v2() == *(nvmlReturn_t *)context);
    CHECK(nvml.nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS);
    CHECK(strlen(nvml.nvmlErrorString(*(nvmlReturn_t *)context)) > 0);
}

static void test_a_missing_library_or_vgpu_is_an_error(void **state)
{
    nvmlReturn_t no_library = NVML_ERROR_LIBRARY_NOT_FOUND, no_vgpu = NVML_ERROR_NOT_READY;
    struct test_segment other, own;
    char dirs[256];

    assert_true(test_monitor("/nowhere/libnvidia-ml.so.1", NULL, see_nothing, &no_library));
    assert_true(test_monitor("/nowhere/libnvidia-ml.so.1", "/nowhere/vgpu", see_nothing, &no_library));
    assert_true(test_monitor(fake, "/nowhere/vgpu", see_nothing, &no_vgpu));
    assert_true(test_monitor(fake, "", see_nothing, &no_vgpu));

    make_vgpu(&other, "opencl/Some Device", GIB);
    make_vgpu(&own, "GPU-66616b65-2d67-7075-0000-000000000001", GIB);
    assert_true(test_monitor(fake, other.dir, see_nothing, &no_vgpu));
    snprintf(dirs, sizeof dirs, "%s:%s", own.dir, own.dir);
    assert_true(test_monitor(fake, dirs, see_nothing, &no_vgpu));
    test_segment_remove(&own);
    test_segment_remove(&other);
}

static void see_lost(void *context)
{
    nvmlDevice_t device;

    begin_monitor(1);
    CHECK(nvml.nvmlDeviceGetHandleByIndex_v2(0, &device) == NVML_ERROR_NOT_FOUND);
}

/* The vGPU's device is not on the machine: it counts as a device, but has no handle. */
static void test_an_absent_device_keeps_its_place(void **state)
{
    struct test_segment vgpu;

    make_vgpu(&vgpu, "GPU-00000000-0000-0000-0000-000000000000", GIB);
    assert_true(test_monitor(fake, vgpu.dir, see_lost, NULL));
    test_segment_remove(&vgpu);
}

static void sleep_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

/* Reports device time to the limiter, like the tenant's interposer. */
static void report_busy(struct test_segment *vgpu, uint64_t busy_ns)
{
    atomic_fetch_add(&vgpu->owner->usage->slots[0].busy_ns, busy_ns);
}

static void see_utilization(void *context)
{
    struct single *single = context;
    nvmlUtilization_t utilization;
    nvmlDevice_t device;

    uint64_t before_first = facet_clock_now_ns();
    begin_monitor(1);
    device = test_device(0);
    CHECK(nvml.nvmlDeviceGetUtilizationRates(device, &utilization) == NVML_SUCCESS && utilization.gpu == 0);
    uint64_t after_first =
        facet_clock_now_ns(); /* the period began when the library began, or now if that is long ago */

    uint64_t busy = UINT64_C(120000000); /* 0.12 s */
    report_busy(&single->vgpu, busy);
    sleep_ms(300);
    uint64_t before_second = facet_clock_now_ns();
    CHECK(nvml.nvmlDeviceGetUtilizationRates(device, &utilization) == NVML_SUCCESS);
    uint64_t after_second = facet_clock_now_ns();
    CHECK(utilization.gpu >= busy * 100 / (after_second - before_first));
    CHECK(utilization.gpu <= busy * 100 / (before_second - after_first));

    report_busy(&single->vgpu, UINT64_C(600000000000)); /* 600 s, far more than the time that passes */
    sleep_ms(150);
    CHECK(nvml.nvmlDeviceGetUtilizationRates(device, &utilization) == NVML_SUCCESS && utilization.gpu == 100);
    sleep_ms(150);
    CHECK(nvml.nvmlDeviceGetUtilizationRates(device, &utilization) == NVML_SUCCESS && utilization.gpu == 0);
}

/*
 * The library samples only during a query, so it is queried until it reports that `wanted` is busy, and at least
 * `least_others` other processes, or for 10 s. This process uses the device, too.
 */
static bool is_sampled(nvmlDevice_t device, pid_t wanted, unsigned least_others, unsigned *ret_others)
{
    nvmlProcessUtilizationSample_t samples[8];

    for (int i = 0; i < 200; i++) {
        unsigned count = 8, others = 0;
        bool found = false;

        if (nvml.nvmlDeviceGetProcessUtilization(device, samples, &count, 0) != NVML_SUCCESS)
            count = 0;
        for (unsigned at = 0; at < count; at++) {
            found |= samples[at].pid == (unsigned)wanted;
            others += samples[at].pid != (unsigned)wanted;
        }
        *ret_others = others;
        if (found && others >= least_others)
            return true;
        fake_run(1, 0, 10000000); /* 10 ms */
        sleep_ms(50);
    }
    return false;
}

static void see_all_samples(void *context)
{
    unsigned others;

    begin_monitor(3);
    CHECK(is_sampled(test_device(1), getpid(), 1, &others));
}

static void see_own_samples(void *context)
{
    const struct single *single = context;
    nvmlProcessUtilizationInfo_v1_t entries[8];
    nvmlProcessesUtilizationInfo_v1_t info = {.version = VENDOR_NVML_VERSION(nvmlProcessesUtilizationInfo_v1_t, 1),
                                              .processSamplesCount = 8,
                                              .procUtilArray = entries};
    unsigned others;

    begin_monitor(1);
    CHECK(is_sampled(test_device(0), single->tenant, 0, &others));
    CHECK(others == 0);
    CHECK(nvml.nvmlDeviceGetProcessesUtilizationInfo(test_device(0), &info) == NVML_SUCCESS);
    CHECK(info.processSamplesCount == 1 && entries[0].pid == (unsigned)single->tenant);
}

/* The limiter's count and the driver's samples differ, so the reported utilization shows which of them was used. */
static void test_utilization_is_that_of_the_vgpu(void **state)
{
    struct single single;

    make_single(&single);
    assert_true(test_monitor(fake, single.vgpu.dir, see_utilization, &single));
    assert_true(test_monitor(fake, NULL, see_all_samples, &single));
    assert_true(test_monitor(fake, single.vgpu.dir, see_own_samples, &single));
    remove_single(&single);
}

/* Cuts the third GPU into two partitions, and stores the UUID of the second partition in `context`. */
static void cut_third_gpu(void *context)
{
    nvmlReturn_t activation;
    nvmlGpuInstance_t parts[2];
    nvmlComputeInstance_t compute;
    nvmlDevice_t gpu, mig;

    begin_monitor(3);
    gpu = test_device(2);
    CHECK(nvml.nvmlDeviceSetMigMode(gpu, NVML_DEVICE_MIG_ENABLE, &activation) == NVML_SUCCESS && activation == 0);
    for (unsigned i = 0; i < 2; i++) {
        CHECK(nvml.nvmlDeviceCreateGpuInstance(gpu, 9 /* 3g.40gb */, &parts[i]) == NVML_SUCCESS);
        CHECK(nvml.nvmlGpuInstanceCreateComputeInstance(parts[i], 2, &compute) == NVML_SUCCESS);
    }
    CHECK(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1, &mig) == NVML_SUCCESS);
    CHECK(nvml.nvmlDeviceGetUUID(mig, context, NVML_DEVICE_UUID_BUFFER_SIZE) == NVML_SUCCESS);
}

static void see_partition(void *context)
{
    char uuid[NVML_DEVICE_UUID_BUFFER_SIZE];
    nvmlDevice_t gpu, mig, found;
    nvmlMemory_t memory;

    begin_monitor(1);
    gpu = test_device(0);
    CHECK(nvml.nvmlDeviceGetUUID(gpu, uuid, sizeof uuid) == NVML_SUCCESS && strncmp(uuid, "GPU-", 4) == 0);
    CHECK(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0, &mig) == NVML_SUCCESS);
    CHECK(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1, &found) == NVML_ERROR_NOT_FOUND);
    CHECK(nvml.nvmlDeviceGetUUID(mig, uuid, sizeof uuid) == NVML_SUCCESS && strcmp(uuid, context) == 0);
    CHECK(nvml.nvmlDeviceGetHandleByUUID(context, &found) == NVML_SUCCESS && found == mig);
    CHECK(nvml.nvmlDeviceGetMemoryInfo(mig, &memory) == NVML_SUCCESS && memory.total == 3 * GIB);
    CHECK(nvml.nvmlDeviceGetMemoryInfo(gpu, &memory) == NVML_SUCCESS && memory.total == 3 * GIB);
}

static void test_a_vgpu_on_a_partition_shows_only_that_partition(void **state)
{
    /* The name of an unused device is in shared memory: a child writes the UUID there, and the parent reads it. */
    char *uuid = (char *)fake_state()->devices[FAKE_DEVICES - 1].name;
    struct test_segment vgpu;

    _Static_assert(sizeof(((struct fake_device *)0)->name) >= TEST_UUID_SIZE, "room for a UUID");
    assert_true(test_monitor(fake, NULL, cut_third_gpu, uuid));
    make_vgpu(&vgpu, uuid, 3 * GIB);
    assert_true(test_monitor(fake, vgpu.dir, see_partition, uuid));
    test_segment_remove(&vgpu);
}

static int set_up(void **state)
{
    fake = getenv("FACET_TEST_NVML_REAL");
    fake_old = getenv("FACET_TEST_NVML_OLD");
    test_machine_make(3, "8G,8G,80G");
    return fake && fake_old ? 0 : 1;
}

static int tear_down(void **state)
{
    test_machine_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outside_a_vgpu_all_is_seen),
        cmocka_unit_test(test_one_vgpu_is_the_only_device),
        cmocka_unit_test(test_a_killed_tenant_is_not_listed),
        cmocka_unit_test(test_a_destroyed_vgpu_is_reported_as_lost),
        cmocka_unit_test(test_devices_come_in_the_order_of_the_vgpus),
        cmocka_unit_test(test_an_old_library_gets_the_newest_lists),
        cmocka_unit_test(test_a_missing_library_or_vgpu_is_an_error),
        cmocka_unit_test(test_an_absent_device_keeps_its_place),
        cmocka_unit_test(test_utilization_is_that_of_the_vgpu),
        cmocka_unit_test(test_a_vgpu_on_a_partition_shows_only_that_partition),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
