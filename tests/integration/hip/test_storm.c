/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: HIP's calls for tests/integration/cuda/storm.h, of each kind of memory. Never: checks an account. */
#include "machine.h"

#include "../cuda/storm.h"

#define OBJECTS    96u /* of each kind */
#define PAGE_COUNT 16u
#define PAGE       (2 * MIB)

/* The objects that one worker holds, of each kind. */
struct storm_bag {
    void *pointers[OBJECTS];
    hipArray_t arrays[OBJECTS];
    hipMipmappedArray_t levels[OBJECTS];
    hipMemGenericAllocationHandle_t handles[PAGE_COUNT];
    hipMemPool_t pools[2];
    char *addresses; /* PAGE_COUNT pages are reserved here */
    bool mapped[PAGE_COUNT];
};

/* A refusal for lack of memory is no failure of the test. */
static bool succeeded(hipError_t result)
{
    if (result != hipErrorOutOfMemory)
        CHECK_EQUAL(result, hipSuccess);
    return result == hipSuccess;
}

static hipError_t allocate_pointer(struct storm_bag *bag, void **pointer)
{
    hipPitchedPtr block;
    hipError_t result;
    size_t pitch;

    switch (storm_draw(8)) {
    case 0:
        return hip.hipMallocPitch(pointer, &pitch, 1 + storm_draw(4000), 1 + storm_draw(500));
    case 1:
        return hip.hipMallocManaged(pointer, storm_draw_size(), hipMemAttachGlobal);
    case 2:
        return hip.hipMallocAsync(pointer, storm_draw_size(), NULL);
    case 3:
        return hip.hipMallocFromPoolAsync(pointer, storm_draw_size(), bag->pools[storm_draw(2)], NULL);
    case 4:
        return hip.hipExtMallocWithFlags(pointer, storm_draw_size(), hipDeviceMallocFinegrained);
    case 5:
        result = hip.hipMalloc3D(&block, (hipExtent){1 + storm_draw(900), 1 + storm_draw(90), 1 + storm_draw(9)});
        *pointer = result == hipSuccess ? block.ptr : NULL;
        return result;
    default:
        return hip.hipMalloc(pointer, storm_draw_size());
    }
}

static void change_pointer(struct storm_bag *bag)
{
    void **pointer = &bag->pointers[storm_draw(OBJECTS)];

    if (*pointer) {
        CHECK_EQUAL(storm_draw(2) ? hip.hipFree(*pointer) : hip.hipFreeAsync(*pointer, NULL), hipSuccess);
        *pointer = NULL;
    } else if (!succeeded(allocate_pointer(bag, pointer))) {
        *pointer = NULL;
    }
}

static void change_array(struct storm_bag *bag)
{
    hipChannelFormatDesc channels = {.x = 32, .y = 32, .f = hipChannelFormatKindFloat};
    uint64_t index = storm_draw(OBJECTS);

    if (bag->arrays[index])
        CHECK_EQUAL(storm_draw(2) ? hip.hipFreeArray(bag->arrays[index]) : hip.hipArrayDestroy(bag->arrays[index]),
                    hipSuccess);
    else if (succeeded(hip.hipMallocArray(&bag->arrays[index], &channels, 1 + storm_draw(600), storm_draw(600), 0)))
        return;
    bag->arrays[index] = NULL;
}

static void change_mipmapped(struct storm_bag *bag)
{
    HIP_ARRAY3D_DESCRIPTOR shape = {
        .Width = 1 + storm_draw(300), .Height = 1 + storm_draw(300), .Format = HIP_AD_FORMAT_HALF, .NumChannels = 2};
    uint64_t index = storm_draw(OBJECTS);

    if (bag->levels[index])
        CHECK_EQUAL(hip.hipFreeMipmappedArray(bag->levels[index]), hipSuccess);
    else if (succeeded(hip.hipMipmappedArrayCreate(&bag->levels[index], &shape, 1 + (unsigned)storm_draw(12))))
        return;
    bag->levels[index] = NULL;
}

/* Handles of one page, mapped at any page and released in any order. */
static void change_virtual(struct storm_bag *bag)
{
    hipMemAllocationProp shape = {.type = hipMemAllocationTypePinned, .location = {.type = hipMemLocationTypeDevice}};
    uint64_t index = storm_draw(PAGE_COUNT), page = storm_draw(PAGE_COUNT);
    void *address = bag->addresses + page * PAGE;

    if (storm_draw(2) && bag->mapped[page]) {
        CHECK_EQUAL(hip.hipMemUnmap(address, PAGE), hipSuccess);
        bag->mapped[page] = false;
    } else if (!bag->handles[index]) {
        if (!succeeded(hip.hipMemCreate(&bag->handles[index], PAGE, &shape, 0)))
            bag->handles[index] = NULL;
    } else if (storm_draw(2) && !bag->mapped[page]) {
        bag->mapped[page] = succeeded(hip.hipMemMap(address, PAGE, 0, bag->handles[index], 0));
    } else {
        CHECK_EQUAL(hip.hipMemRelease(bag->handles[index]), hipSuccess);
        bag->handles[index] = NULL;
    }
}

static void change_pool(struct storm_bag *bag)
{
    uint64_t keep = storm_draw(2) * 16 * MIB;
    hipMemPool_t pool = bag->pools[storm_draw(2)];

    if (storm_draw(2))
        CHECK_EQUAL(hip.hipMemPoolTrimTo(pool, keep), hipSuccess);
    else
        CHECK_EQUAL(hip.hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &keep), hipSuccess);
}

static void make_wrong_calls(struct storm_bag *bag)
{
    size_t free_bytes, total;

    CHECK_EQUAL(hip.hipFree(bag), hipErrorInvalidValue);
    CHECK(hip.hipMemRelease((hipMemGenericAllocationHandle_t)12345678) != hipSuccess);
    CHECK_EQUAL(hip.hipMemGetInfo(&free_bytes, &total), hipSuccess);
    CHECK(free_bytes <= total && total == STORM_LIMIT);
}

static void change_any(struct storm_bag *bag)
{
    uint64_t kind = storm_draw(1000); /* each kind of call has a fixed part of 1000 */

    if (kind < 500)
        change_pointer(bag);
    else if (kind < 640)
        change_array(bag);
    else if (kind < 740)
        change_mipmapped(bag);
    else if (kind < 940)
        change_virtual(bag);
    else if (kind < 970)
        change_pool(bag);
    else
        make_wrong_calls(bag);
}

static struct storm_bag *prepare_bag(struct storm_worker *self)
{
    static struct storm_bag bag;
    hipMemPoolProps shape = {.allocType = hipMemAllocationTypePinned, .location = {.type = hipMemLocationTypeDevice}};
    hipStream_t stream;
    void *addresses;

    role_open();
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipSuccess);
    atomic_store(&self->device_charge, machine_charged_to_self(0));
    CHECK_EQUAL(hip.hipMemPoolCreate(&bag.pools[0], &shape), hipSuccess);
    CHECK_EQUAL(hip.hipDeviceGetDefaultMemPool(&bag.pools[1], 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemAddressReserve(&addresses, PAGE_COUNT * PAGE, 0, NULL, 0), hipSuccess);
    bag.addresses = addresses;
    return &bag;
}

static void settle_charges(void)
{
    size_t free_bytes, total;

    CHECK_EQUAL(hip.hipMemGetInfo(&free_bytes, &total), hipSuccess);
}

/* The charges for beginning the device, and the requested memory that the fake runtime counted. */
static uint64_t requested_bytes(void)
{
    uint64_t bytes = fake_requested(0);

    for (uint32_t i = 0; i < STORM_WORKERS; i++)
        bytes += atomic_load(&storm->workers[i].device_charge);
    return bytes;
}

static void enter_role(void)
{
    hipStream_t stream;

    role_open();
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipSuccess);
}

static bool allocate_memory(void **pointer, uint64_t bytes)
{
    return succeeded(hip.hipMalloc(pointer, bytes));
}

static void free_memory(void *pointer)
{
    CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
}

static const struct storm_vendor storm_vendor = {
    .calls = 50000,
    .greedy_calls = 20000,
    .prepare_bag = prepare_bag,
    .call_any = change_any,
    .settle_charges = settle_charges,
    .expected_charge = requested_bytes,
    .enter_role = enter_role,
    .allocate = allocate_memory,
    .release = free_memory,
};

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_processes_never_get_a_byte_too_much),
        cmocka_unit_test(test_accounts_are_true_after_any_process_is_killed),
    };

    return cmocka_run_group_tests_name("hip/storm", tests, NULL, NULL);
}
