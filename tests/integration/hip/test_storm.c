/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: HIP's calls of tests/integration/cuda/storm.h, of each kind. Never: judges an account. */
#include "machine.h"

#include "../cuda/storm.h"

#define HELD   96u
#define PLACES 16u
#define PAGE   (2 * MIB)

/* The objects that one worker holds, of each kind. */
struct storm_bag {
    void *pointers[HELD];
    hipArray_t arrays[HELD];
    hipMipmappedArray_t levels[HELD];
    hipMemGenericAllocationHandle_t handles[PLACES];
    hipMemPool_t pools[2];
    char *places; /* addresses of PLACES pages */
    bool mapped[PLACES];
};

/* A refusal for want of memory is no failure. */
static bool was_given(hipError_t result)
{
    if (result != hipErrorOutOfMemory)
        CHECK_EQUAL(result, hipSuccess);
    return result == hipSuccess;
}

static hipError_t take_pointer(struct storm_bag *bag, void **pointer)
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

static void do_pointer(struct storm_bag *bag)
{
    void **pointer = &bag->pointers[storm_draw(HELD)];

    if (*pointer) {
        CHECK_EQUAL(storm_draw(2) ? hip.hipFree(*pointer) : hip.hipFreeAsync(*pointer, NULL), hipSuccess);
        *pointer = NULL;
    } else if (!was_given(take_pointer(bag, pointer))) {
        *pointer = NULL;
    }
}

static void do_array(struct storm_bag *bag)
{
    hipChannelFormatDesc channels = {.x = 32, .y = 32, .f = hipChannelFormatKindFloat};
    uint64_t index = storm_draw(HELD);

    if (bag->arrays[index])
        CHECK_EQUAL(storm_draw(2) ? hip.hipFreeArray(bag->arrays[index]) : hip.hipArrayDestroy(bag->arrays[index]),
                    hipSuccess);
    else if (was_given(hip.hipMallocArray(&bag->arrays[index], &channels, 1 + storm_draw(600), storm_draw(600), 0)))
        return;
    bag->arrays[index] = NULL;
}

static void do_levels(struct storm_bag *bag)
{
    HIP_ARRAY3D_DESCRIPTOR shape = {
        .Width = 1 + storm_draw(300), .Height = 1 + storm_draw(300), .Format = HIP_AD_FORMAT_HALF, .NumChannels = 2};
    uint64_t index = storm_draw(HELD);

    if (bag->levels[index])
        CHECK_EQUAL(hip.hipFreeMipmappedArray(bag->levels[index]), hipSuccess);
    else if (was_given(hip.hipMipmappedArrayCreate(&bag->levels[index], &shape, 1 + (unsigned)storm_draw(12))))
        return;
    bag->levels[index] = NULL;
}

/* Handles of one page, mapped at places and let go in any order. */
static void do_virtual(struct storm_bag *bag)
{
    hipMemAllocationProp shape = {.type = hipMemAllocationTypePinned, .location = {.type = hipMemLocationTypeDevice}};
    uint64_t index = storm_draw(PLACES), place = storm_draw(PLACES);
    void *address = bag->places + place * PAGE;

    if (storm_draw(2) && bag->mapped[place]) {
        CHECK_EQUAL(hip.hipMemUnmap(address, PAGE), hipSuccess);
        bag->mapped[place] = false;
    } else if (!bag->handles[index]) {
        if (!was_given(hip.hipMemCreate(&bag->handles[index], PAGE, &shape, 0)))
            bag->handles[index] = NULL;
    } else if (storm_draw(2) && !bag->mapped[place]) {
        bag->mapped[place] = was_given(hip.hipMemMap(address, PAGE, 0, bag->handles[index], 0));
    } else {
        CHECK_EQUAL(hip.hipMemRelease(bag->handles[index]), hipSuccess);
        bag->handles[index] = NULL;
    }
}

static void do_pool(struct storm_bag *bag)
{
    uint64_t keep = storm_draw(2) * 16 * MIB;
    hipMemPool_t pool = bag->pools[storm_draw(2)];

    if (storm_draw(2))
        CHECK_EQUAL(hip.hipMemPoolTrimTo(pool, keep), hipSuccess);
    else
        CHECK_EQUAL(hip.hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &keep), hipSuccess);
}

static void do_wrong(struct storm_bag *bag)
{
    size_t is_free, total;

    CHECK_EQUAL(hip.hipFree(bag), hipErrorInvalidValue);
    CHECK(hip.hipMemRelease((hipMemGenericAllocationHandle_t)12345678) != hipSuccess);
    CHECK_EQUAL(hip.hipMemGetInfo(&is_free, &total), hipSuccess);
    CHECK(is_free <= total && total == STORM_LIMIT);
}

static void do_any(struct storm_bag *bag)
{
    uint64_t kind = storm_draw(1000);

    if (kind < 500)
        do_pointer(bag);
    else if (kind < 640)
        do_array(bag);
    else if (kind < 740)
        do_levels(bag);
    else if (kind < 940)
        do_virtual(bag);
    else if (kind < 970)
        do_pool(bag);
    else
        do_wrong(bag);
}

static struct storm_bag *prepare_bag(struct storm_worker *self)
{
    static struct storm_bag bag;
    hipMemPoolProps shape = {.allocType = hipMemAllocationTypePinned, .location = {.type = hipMemLocationTypeDevice}};
    hipStream_t stream;
    void *places;

    role_open();
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipSuccess);
    atomic_store(&self->begun, machine_own(0));
    CHECK_EQUAL(hip.hipMemPoolCreate(&bag.pools[0], &shape), hipSuccess);
    CHECK_EQUAL(hip.hipDeviceGetDefaultMemPool(&bag.pools[1], 0), hipSuccess);
    CHECK_EQUAL(hip.hipMemAddressReserve(&places, PLACES * PAGE, 0, NULL, 0), hipSuccess);
    bag.places = places;
    return &bag;
}

static void settle_charges(void)
{
    size_t is_free, total;

    CHECK_EQUAL(hip.hipMemGetInfo(&is_free, &total), hipSuccess);
}

/* Charges for beginning a device are no part of the requested memory. */
static uint64_t true_bytes(void)
{
    uint64_t bytes = fake_requested(0);

    for (uint32_t i = 0; i < STORM_WORKERS; i++)
        bytes += atomic_load(&storm->workers[i].begun);
    return bytes;
}

static void enter_role(void)
{
    hipStream_t stream;

    role_open();
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipSuccess);
}

static bool take_memory(void **pointer, uint64_t bytes)
{
    return was_given(hip.hipMalloc(pointer, bytes));
}

static void give_back(void *pointer)
{
    CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
}

static const struct storm_vendor storm_vendor = {
    .calls = 50000,
    .greedy_calls = 20000,
    .prepare = prepare_bag,
    .call = do_any,
    .settle = settle_charges,
    .truth = true_bytes,
    .enter = enter_role,
    .take = take_memory,
    .give = give_back,
};

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_processes_never_get_a_byte_too_much),
        cmocka_unit_test(test_accounts_are_true_after_any_process_is_killed),
    };

    return cmocka_run_group_tests_name("hip/storm", tests, NULL, NULL);
}
