/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that each kind of HIP's memory is charged with its size, and given back.
 * Never: runs processes that take memory at once (test_storm.c). */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "limiter/tenant.h"
#include "machine.h"

/* The charge is the cost of beginning the device plus `bytes`, which is what was requested from the runtime. */
#define CHECK_CHARGED(bytes)                                                                                           \
    do {                                                                                                               \
        CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + (bytes));                                                      \
        CHECK_EQUAL(fake_requested(0), bytes);                                                                         \
    } while (0)

static void *allocate_memory(uint64_t bytes)
{
    void *pointer = NULL;

    CHECK_EQUAL(hip.hipMalloc(&pointer, bytes), hipSuccess);
    return pointer;
}

/* Nothing is charged before the device is used; then the cost of beginning it is charged. */
static void enter_role(void)
{
    hipStream_t stream;

    role_open();
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipSuccess);
    CHECK_CHARGED(0);
}

static void role_plain_allocations(void *argument)
{
    /* the size of an allocation, and its charge */
    static const uint64_t sizes[][2] = {
        {1, 4 * KIB}, {4 * KIB, 4 * KIB}, {4 * KIB + 1, 8 * KIB}, {3 * MIB, 3 * MIB}, {3 * MIB + 1, 3 * MIB + 4 * KIB}};

    enter_role();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *pointer = allocate_memory(sizes[i][0]);

        CHECK_CHARGED(sizes[i][1]);
        CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
        CHECK_CHARGED(0);
        CHECK_EQUAL(hip.hipFree(pointer), hipErrorInvalidValue);
        CHECK_CHARGED(0);
    }
    CHECK(allocate_memory(0) == NULL);
    CHECK_EQUAL(hip.hipFree(NULL), hipSuccess);
    CHECK_CHARGED(0);
}

static void test_plain_memory_is_charged_as_the_runtime_takes_it(void **state)
{
    machine_run(role_plain_allocations, GIB);
}

static void role_each_allocation_form(void *argument)
{
    hipPitchedPtr block;
    void *pointer, *host;
    size_t pitch;

    enter_role();
    CHECK_EQUAL(hip.hipExtMallocWithFlags(&pointer, 3 * MIB, hipDeviceMallocFinegrained), hipSuccess);
    CHECK_CHARGED(3 * MIB);
    CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
    CHECK_EQUAL(hip.hipExtMallocWithFlags(&pointer, 8, hipMallocSignalMemory), hipSuccess);
    CHECK_CHARGED(0);
    CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
    CHECK_EQUAL(hip.hipMallocPitch(&pointer, &pitch, 1, 1000), hipSuccess);
    CHECK_CHARGED((pitch * 1000 + 4095) / 4096 * 4096);
    CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
    CHECK_EQUAL(hip.hipMemAllocPitch(&pointer, &pitch, 5000, 3, 8), hipSuccess);
    CHECK_CHARGED((pitch * 3 + 4095) / 4096 * 4096);
    CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
    CHECK_EQUAL(hip.hipMalloc3D(&block, (hipExtent){.width = 700, .height = 20, .depth = 30}), hipSuccess);
    CHECK_CHARGED((block.pitch * 600 + 4095) / 4096 * 4096);
    CHECK_EQUAL(hip.hipFree(block.ptr), hipSuccess);
    CHECK_EQUAL(hip.hipMallocManaged(&pointer, 3 * MIB, hipMemAttachGlobal), hipSuccess);
    CHECK_CHARGED(3 * MIB);
    CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
    CHECK_EQUAL(hip.hipHostMalloc(&host, 4 * GIB, 0), hipSuccess);
    CHECK_CHARGED(0);
    CHECK_EQUAL(hip.hipHostFree(host), hipSuccess);
    CHECK_EQUAL(hip.hipFree(&pointer), hipErrorInvalidValue);
    CHECK_CHARGED(0);
}

static void test_pitched_managed_and_fine_grained_memory_is_charged_in_full_and_the_hosts_is_not(void **state)
{
    machine_run(role_each_allocation_form, GIB);
}

/* Calls by which a program may begin a device: each is refused. */
static void role_first_calls(void *argument)
{
    static char page[4096];
    hipEvent_t event;
    hipMemPool_t pool;
    void *pointer;

    role_open();
    CHECK_EQUAL(hip.hipEventCreate(&event), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipEventCreateWithFlags(&event, 0), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipDeviceGetDefaultMemPool(&pool, 0), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipHostAlloc(&pointer, 4096, 0), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipMallocHost(&pointer, 4096), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipHostRegister(page, sizeof page, 0), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipMalloc(&pointer, 1), hipErrorOutOfMemory);
}

static void test_the_first_call_reports_a_quota_below_the_devices_cost(void **state)
{
    machine_run(role_first_calls, MACHINE_BEGIN / 3);
}

static void role_arrays(void *argument)
{
    hipChannelFormatDesc four = {.x = 32, .y = 32, .z = 32, .w = 32, .f = hipChannelFormatKindFloat};
    HIP_ARRAY3D_DESCRIPTOR deep = {
        .Width = 100, .Height = 50, .Depth = 10, .Format = HIP_AD_FORMAT_HALF, .NumChannels = 2};
    hipArray_t array;
    hipMipmappedArray_t levels;

    enter_role();
    CHECK_EQUAL(hip.hipMallocArray(&array, &four, 1000, 1000, 0), hipSuccess);
    CHECK_CHARGED(16384000); /* 1000 rows of 16000 bytes, each in steps of 512 */
    CHECK_EQUAL(hip.hipFreeArray(array), hipSuccess);
    CHECK_EQUAL(hip.hipArray3DCreate(&array, &deep), hipSuccess);
    CHECK_CHARGED(4 * 64 * KIB); /* 512 * 50 * 10, in steps of 64 KiB */
    CHECK_EQUAL(hip.hipArrayDestroy(array), hipSuccess);
    CHECK(hip.hipArrayDestroy(array) != hipSuccess);
    deep.Flags = hipArrayLayered;
    CHECK_EQUAL(hip.hipMipmappedArrayCreate(&levels, &deep, 100), hipSuccess);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + fake_requested(0));
    CHECK(fake_requested(0) > 0);
    CHECK_EQUAL(hip.hipFreeMipmappedArray(levels), hipSuccess);
    CHECK_CHARGED(0);
    deep.Format = 0x77; /* an unknown format: charged, refused by the runtime, and given back */
    CHECK_EQUAL(hip.hipArray3DCreate(&array, &deep), hipErrorInvalidValue);
    CHECK_EQUAL(hip.hipArray3DCreate(&array, NULL), hipErrorInvalidValue);
    CHECK_CHARGED(0);
}

static void test_arrays_are_charged_by_their_rows(void **state)
{
    machine_run(role_arrays, GIB);
}

static void role_pools(void *argument)
{
    hipMemPoolProps properties = {.allocType = hipMemAllocationTypePinned,
                                  .location = {.type = hipMemLocationTypeDevice, .id = 0}};
    uint64_t keep = UINT64_MAX;
    hipMemPool_t pool;
    void *pointer;

    enter_role();
    CHECK_EQUAL(hip.hipMallocAsync(&pointer, 3 * MIB, NULL), hipSuccess);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + fake_requested(0));
    CHECK(fake_requested(0) >= 3 * MIB);
    CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
    CHECK_EQUAL(hip.hipMemPoolCreate(&pool, &properties), hipSuccess);
    CHECK_EQUAL(hip.hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &keep), hipSuccess);
    CHECK_EQUAL(hip.hipMallocFromPoolAsync(&pointer, 40 * MIB, pool, NULL), hipSuccess);
    CHECK_EQUAL(hip.hipFreeAsync(pointer, NULL), hipSuccess);
    CHECK_EQUAL(hip.hipStreamSynchronize(NULL), hipSuccess);
    CHECK(machine_charged(0) >= MACHINE_BEGIN + 40 * MIB); /* the pool keeps its memory */
    CHECK_EQUAL(hip.hipMallocFromPoolAsync(&pointer, 2 * GIB, pool, NULL), hipErrorOutOfMemory);
    pointer = allocate_memory(GIB - MACHINE_BEGIN); /* unused memory of the pool makes room */
    CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
    CHECK_EQUAL(hip.hipMemPoolDestroy(pool), hipSuccess);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + fake_requested(0));
}

static void test_pools_are_charged_for_the_memory_they_hold(void **state)
{
    machine_run(role_pools, GIB);
}

static void role_virtual(void *argument)
{
    hipMemAllocationProp properties = {.type = hipMemAllocationTypePinned,
                                       .location = {.type = hipMemLocationTypeDevice, .id = 0}};
    hipMemGenericAllocationHandle_t handle, again;
    void *address;

    enter_role();
    CHECK_EQUAL(hip.hipMemCreate(&handle, 2 * GIB, &properties, 0), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipMemCreate(&handle, 4 * MIB, &properties, 0), hipSuccess);
    CHECK_CHARGED(4 * MIB);
    CHECK_EQUAL(hip.hipMemAddressReserve(&address, 8 * MIB, 0, NULL, 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemMap(address, 4 * MIB, 0, handle, 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemRelease(handle), hipSuccess);
    CHECK_CHARGED(4 * MIB); /* the mapping holds the memory */
    CHECK_EQUAL(hip.hipMemRetainAllocationHandle(&again, address), hipSuccess);
    CHECK_EQUAL(hip.hipMemUnmap(address, 4 * MIB), hipSuccess);
    CHECK_CHARGED(4 * MIB); /* the new handle holds the memory */
    CHECK_EQUAL(hip.hipMemRelease(again), hipSuccess);
    CHECK_CHARGED(0);
    CHECK(hip.hipMemRelease(again) != hipSuccess);
    CHECK_EQUAL(hip.hipMemAddressFree(address, 8 * MIB), hipSuccess);
    CHECK_CHARGED(0);
}

/* Exported memory stays charged as long as any process may have a descriptor of it. */
static void role_exported_memory(void *argument)
{
    hipMemAllocationProp properties = {.type = hipMemAllocationTypePinned,
                                       .requestedHandleTypes = hipMemHandleTypePosixFileDescriptor,
                                       .location = {.type = hipMemLocationTypeDevice, .id = 0}};
    hipMemGenericAllocationHandle_t handle;
    int fd;

    enter_role();
    CHECK_EQUAL(hip.hipMemCreate(&handle, 4 * MIB, &properties, 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemExportToShareableHandle(&fd, handle, hipMemHandleTypePosixFileDescriptor, 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemRelease(handle), hipSuccess);
    CHECK_CHARGED(4 * MIB);
    CHECK_EQUAL(hip.hipMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, hipMemHandleTypePosixFileDescriptor),
                hipSuccess);
    CHECK_EQUAL(hip.hipMemRelease(handle), hipSuccess);
    CHECK_CHARGED(4 * MIB);
}

static void test_memory_that_was_exported_stays_charged(void **state)
{
    machine_run(role_exported_memory, GIB);
}

static void test_virtual_memory_is_charged_until_its_last_holder_goes(void **state)
{
    machine_run(role_virtual, GIB);
}

static void role_requests_over_quota(void *argument)
{
    uint64_t left = GIB - MACHINE_BEGIN - 4 * KIB;
    void *pointer = &pointer, *last; /* any value: a refused call must not change it */
    size_t free_bytes, total, pitch;

    enter_role();
    CHECK_EQUAL(hip.hipMalloc(&pointer, GIB), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipMalloc(&pointer, SIZE_MAX), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipMallocPitch(&pointer, &pitch, SIZE_MAX / 2, 3), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipMallocManaged(&pointer, GIB, hipMemAttachGlobal), hipErrorOutOfMemory);
    CHECK(pointer == &pointer);
    CHECK_CHARGED(0);
    CHECK_EQUAL(test_segment_totals(&machine.segments[0]).denied, 4); /* each call above */
    allocate_memory(left);
    last = allocate_memory(1);
    CHECK_EQUAL(hip.hipMemGetInfo(&free_bytes, &total), hipSuccess);
    CHECK_EQUAL(free_bytes, 0);
    CHECK_EQUAL(total, GIB);
    CHECK_EQUAL(hip.hipMalloc(&pointer, 1), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipFree(last), hipSuccess);
    allocate_memory(4 * KIB);
    CHECK_CHARGED(left + 4 * KIB);
}

static void test_one_byte_beyond_the_quota_is_refused(void **state)
{
    machine_run(role_requests_over_quota, GIB);
}

static void role_resets_the_device(void *argument)
{
    enter_role();
    allocate_memory(5 * MIB);
    allocate_memory(7 * KIB);
    CHECK_EQUAL(hip.hipDeviceReset(), hipSuccess);
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(fake_used(0), 0);
    allocate_memory(MIB);
    CHECK_CHARGED(MIB);
}

static void test_a_reset_releases_all_charges_and_the_device_begins_anew(void **state)
{
    machine_run(role_resets_the_device, GIB);
}

static void role_reported_sizes(void *argument)
{
    hipDeviceProp_tR0000 old;
    hipDeviceProp_tR0600 now;
    size_t bytes, free_bytes;
    int count, value;
    void *function;

    role_open();
    CHECK_EQUAL(hip.hipGetDeviceCount(&count), hipSuccess);
    CHECK_EQUAL(count, 2);
    for (int i = 0; i < count; i++) {
        uint64_t limit = i ? 3 * GIB : GIB;

        CHECK_EQUAL(hip.hipDeviceTotalMem(&bytes, i), hipSuccess);
        CHECK_EQUAL(bytes, limit);
        CHECK_EQUAL(hip.hipGetDeviceProperties(&old, i), hipSuccess);
        CHECK_EQUAL(old.totalGlobalMem, limit);
        CHECK_EQUAL(old.totalConstMem, limit);
        CHECK_EQUAL(hip.hipGetDevicePropertiesR0600(&now, i), hipSuccess);
        CHECK_EQUAL(now.totalGlobalMem, limit);
        CHECK_EQUAL(now.totalConstMem, limit);
        CHECK_EQUAL(hip.hipSetDevice(i), hipSuccess);
        CHECK_EQUAL(hip.hipMemGetInfo(&free_bytes, &bytes), hipSuccess);
        CHECK_EQUAL(bytes, limit);
        CHECK_EQUAL(free_bytes, limit);
    }
    CHECK_EQUAL(hip.hipDeviceGetAttribute(&value, hipDeviceAttributeTotalGlobalMem, 0), hipSuccess);
    CHECK_EQUAL(value, GIB);
    CHECK_EQUAL(hip.hipDeviceGetAttribute(&value, hipDeviceAttributeTotalConstantMemory, 0), hipSuccess);
    CHECK_EQUAL(value, GIB);
    CHECK_EQUAL(hip.hipGetProcAddress("hipMalloc", &function, 70000000, 0, NULL), hipSuccess);
    CHECK(function != (void *)hip.hipMalloc); /* the hook, not the exported symbol, which jumps to it */
    CHECK_EQUAL(((__typeof__(hip.hipMalloc))function)(&function, 2 * GIB), hipSuccess);
    CHECK_EQUAL(machine_charged(1), MACHINE_BEGIN + 2 * GIB);
    CHECK_EQUAL(machine_charged(0), 0);
    allocate_memory(0);
    CHECK_EQUAL(hip.hipSetDevice(0), hipSuccess);
    CHECK_EQUAL(hip.hipMalloc(&function, 2 * GIB), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipFree((void *)function), hipSuccess); /* memory of the other device: its vGPU gets it back */
    CHECK_EQUAL(machine_charged(1), MACHINE_BEGIN);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN);
}

static void test_two_devices_have_their_own_quotas_in_every_report(void **state)
{
    const uint64_t limits[] = {GIB, 3 * GIB};

    machine_make(2, limits, "300M");
    machine_wait(machine_start(role_reported_sizes, NULL, true));
    machine_remove();
}

static void role_quota_below_a_device(void *argument)
{
    void *pointer = NULL;
    hipStream_t stream;

    role_open();
    CHECK_EQUAL(hip.hipMalloc(&pointer, 1), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipErrorOutOfMemory);
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(fake_used(0), 0);
}

static void test_a_quota_that_a_device_cannot_begin_with_is_refused_and_nothing_stays(void **state)
{
    machine_run(role_quota_below_a_device, 200 * MIB);
}

/* A program that does not check whether its stream was created uses an invalid handle. `argument`: the quota has room
 * to begin the device. */
static void role_unchecked_stream(void *argument)
{
    uint64_t garbage[64] = {0};
    hipStream_t stream = (hipStream_t)garbage;
    void *pointer = NULL;

    role_open();
    CHECK_EQUAL(hip.hipStreamCreate(&stream), argument ? hipSuccess : hipErrorOutOfMemory);
    for (uint32_t i = 0; i < 3; i++) {
        stream = i == 1 ? NULL : i == 2 ? hipStreamPerThread : (hipStream_t)garbage;
        bool expected = argument && stream != (hipStream_t)garbage;

        CHECK_EQUAL(hip.hipMallocAsync(&pointer, MIB, stream) == hipSuccess, expected);
        if (expected)
            CHECK_EQUAL(hip.hipFreeAsync(pointer, stream), hipSuccess);
        CHECK_EQUAL(hip.hipMemsetAsync(pointer, 0, 4 * MIB, (hipStream_t)garbage) == hipSuccess, false);
        CHECK_EQUAL(machine_charged(0), fake_used(0));
        CHECK_EQUAL(fake_used(0) > 0, argument != NULL);
    }
}

static void test_an_invalid_stream_gets_no_uncharged_memory(void **state)
{
    machine_run(role_unchecked_stream, 200 * MIB);
    machine_make(1, &(uint64_t){GIB}, "300M");
    machine_wait(machine_start(role_unchecked_stream, &machine, true));
    machine_remove();
}

/* A program that only launches begins its device by its first launch, and is charged for that. `argument`: the quota is
 * too small. */
static void role_launches(void *argument)
{
    static const char image[] = "FAKE-HIP\nkernel 1000 8\n";
    static const struct vendor_hip_fat_binary binary = {.magic = VENDOR_HIP_FAT_BINARY, .version = 1, .binary = image};
    static char kernel, name[] = "kernel";
    const dim3 one = {1, 1, 1};

    role_open();
    hip.__hipRegisterFunction(hip.__hipRegisterFatBinary(&binary), &kernel, name, name, 0, NULL, NULL, NULL, NULL,
                              NULL);
    CHECK_EQUAL(machine_charged(0), 0);
    hipError_t result = hip.hipLaunchKernel(&kernel, one, one, NULL, 0, NULL);
    CHECK_EQUAL(result == hipSuccess, argument == NULL);
    CHECK_EQUAL(machine_charged(0), argument ? 0 : MACHINE_BEGIN);
    CHECK(argument ? fake_used(0) == 0 : fake_used(0) >= MACHINE_BEGIN); /* the kernel's code may take some more */
}

/* Makes a call with which programs warm a device up: begin it before they need it. */
static void warm_up(int way)
{
    static char bytes[16], more[16];
    void *pointer = NULL;

    switch (way) {
    case 0:
        CHECK_EQUAL(hip.hipFree(NULL), hipSuccess);
        break;
    case 1:
        CHECK_EQUAL(hip.hipDeviceSynchronize(), hipSuccess);
        break;
    case 2:
        CHECK_EQUAL(hip.hipStreamSynchronize(NULL), hipSuccess);
        break;
    case 3:
        CHECK_EQUAL(hip.hipHostMalloc(&pointer, 4096, 0), hipSuccess);
        break;
    case 4:
        hip.hipMemset(bytes, 1, sizeof bytes); /* refused, because `bytes` is on the host; but the device has begun */
        break;
    default:
        hip.hipMemcpy(bytes, more, sizeof bytes, hipMemcpyHostToHost);
    }
}

static void role_warms_up(void *argument)
{
    role_open();
    warm_up(*(const int *)argument);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN);
    CHECK_EQUAL(fake_used(0), MACHINE_BEGIN);
}

static void test_a_device_is_charged_when_it_is_warmed_up(void **state)
{
    for (int way = 0; way < 6; way++) {
        const uint64_t limit = GIB;

        machine_make(1, &limit, "300M");
        machine_wait(machine_start(role_warms_up, &way, true));
        machine_remove();
    }
}

static void test_a_device_that_begins_with_a_launch_is_charged_with_it(void **state)
{
    const uint64_t limits[] = {GIB, 200 * MIB};

    for (uint32_t i = 0; i < 2; i++) {
        machine_make(1, &limits[i], "300M");
        machine_wait(machine_start(role_launches, i ? machine.state : NULL, true));
        machine_remove();
    }
}

static void role_forked_child(void *argument)
{
    int status = -1;

    role_open();
    pid_t fork_early = fork(); /* before the runtime is loaded: the child loads a runtime of its own */
    if (fork_early == 0) {
        allocate_memory(MIB);
        CHECK_CHARGED(MIB);
        _exit(0);
    }
    CHECK_EQUAL(waitpid(fork_early, &status, 0), fork_early);
    CHECK_EQUAL(status, 0);
    allocate_memory(3 * MIB);
    CHECK_CHARGED(3 * MIB);
    pid_t fork_late = fork(); /* this child cannot use the runtime, and is charged nothing */
    if (fork_late == 0) {
        void *pointer;

        CHECK(hip.hipMalloc(&pointer, MIB) != hipSuccess);
        _exit(0);
    }
    CHECK_EQUAL(waitpid(fork_late, &status, 0), fork_late);
    CHECK_EQUAL(status, 0);
    CHECK_CHARGED(3 * MIB);
}

static void test_a_child_is_charged_for_itself_and_the_parents_charge_stays(void **state)
{
    machine_run(role_forked_child, GIB);
}

static void role_vgpu_is_missing(void *argument)
{
    int count = 7;
    void *pointer;

    setenv(FACET_ENV_VGPU_DIR, "/nowhere", 1);
    role_open();
    CHECK_EQUAL(hip.hipMalloc(&pointer, 1), hipErrorNotInitialized);
    CHECK_EQUAL(hip.hipGetDeviceCount(&count), hipErrorNotInitialized);
    CHECK_EQUAL(hip.hipHostMalloc(&pointer, 1, 0), hipErrorNotInitialized);
    CHECK(strcmp(hip.hipGetErrorName(hipErrorNotReady), "hipErrorNotReady") == 0);
}

static void test_in_a_vgpu_that_cannot_be_used_each_call_is_refused(void **state)
{
    machine_run(role_vgpu_is_missing, GIB);
}

static void role_chooses_devices(void *argument)
{
    char digits[17], lists[64];
    size_t bytes;
    hipUUID uuid;
    int count;

    machine_digits(1, digits);
    snprintf(lists, sizeof lists, VENDOR_HIP_UUID "%s,0", digits);
    setenv("ROCR_VISIBLE_DEVICES", lists, 1);
    setenv("HIP_VISIBLE_DEVICES", "0", 1);
    role_open();
    CHECK_EQUAL(hip.hipGetDeviceCount(&count), hipSuccess);
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(hip.hipDeviceGetUuid(&uuid, 0), hipSuccess);
    CHECK(memcmp(uuid.bytes, digits, sizeof uuid.bytes) == 0);
    CHECK_EQUAL(hip.hipDeviceTotalMem(&bytes, 0), hipSuccess);
    CHECK_EQUAL(bytes, 3 * GIB);
    CHECK(strcmp(getenv("HIP_VISIBLE_DEVICES"), "0") == 0); /* so a child of this process chooses the same device */
    allocate_memory(MIB);
    CHECK_EQUAL(machine_charged(1), MACHINE_BEGIN + MIB);
    CHECK_EQUAL(machine_charged(0), 0);
}

static void test_a_program_chooses_among_its_vgpus_by_index_and_uuid(void **state)
{
    const uint64_t limits[] = {GIB, 3 * GIB};

    machine_make(2, limits, "300M");
    machine_wait(machine_start(role_chooses_devices, NULL, true));
    machine_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_memory_is_charged_as_the_runtime_takes_it),
        cmocka_unit_test(test_the_first_call_reports_a_quota_below_the_devices_cost),
        cmocka_unit_test(test_pitched_managed_and_fine_grained_memory_is_charged_in_full_and_the_hosts_is_not),
        cmocka_unit_test(test_arrays_are_charged_by_their_rows),
        cmocka_unit_test(test_pools_are_charged_for_the_memory_they_hold),
        cmocka_unit_test(test_memory_that_was_exported_stays_charged),
        cmocka_unit_test(test_virtual_memory_is_charged_until_its_last_holder_goes),
        cmocka_unit_test(test_one_byte_beyond_the_quota_is_refused),
        cmocka_unit_test(test_a_reset_releases_all_charges_and_the_device_begins_anew),
        cmocka_unit_test(test_two_devices_have_their_own_quotas_in_every_report),
        cmocka_unit_test(test_a_quota_that_a_device_cannot_begin_with_is_refused_and_nothing_stays),
        cmocka_unit_test(test_an_invalid_stream_gets_no_uncharged_memory),
        cmocka_unit_test(test_a_device_is_charged_when_it_is_warmed_up),
        cmocka_unit_test(test_a_device_that_begins_with_a_launch_is_charged_with_it),
        cmocka_unit_test(test_a_child_is_charged_for_itself_and_the_parents_charge_stays),
        cmocka_unit_test(test_in_a_vgpu_that_cannot_be_used_each_call_is_refused),
        cmocka_unit_test(test_a_program_chooses_among_its_vgpus_by_index_and_uuid),
    };

    return cmocka_run_group_tests_name("hip/memory", tests, NULL, NULL);
}
