/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MIG of the fake library follows the vendor's published tables, of which this file has a copy of its own. The
 * tests reach every possible set of instances, and request every instance in each set.
 *
 * Owns: the tables, and the machine: two GPUs in MIG mode, of 80 GB and 141 GB, and two others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "nvml_machine.h"
#include "vendor/cuda/nvml_mig.h"

/* Profiles as nvidia-smi lists them: slices of memory and of compute, the most instances at a time, the slices of
 * memory at which an instance may start, and the names on both GPUs. */
static const struct rule {
    unsigned profile_index, id, memory, compute, max_count, starts[8], start_count;
    const char *name_80, *name_141;
} rules[] = {
    {NVML_GPU_INSTANCE_PROFILE_1_SLICE, 19, 1, 1, 7, {0, 1, 2, 3, 4, 5, 6}, 7, "1g.10gb", "1g.18gb"},
    {NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1, 20, 1, 1, 1, {0, 1, 2, 3, 4, 5, 6}, 7, "1g.10gb+me", "1g.18gb+me"},
    {NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2, 15, 2, 1, 4, {0, 2, 4, 6}, 4, "1g.20gb", "1g.35gb"},
    {NVML_GPU_INSTANCE_PROFILE_2_SLICE, 14, 2, 2, 3, {0, 2, 4}, 3, "2g.20gb", "2g.35gb"},
    {NVML_GPU_INSTANCE_PROFILE_3_SLICE, 9, 4, 3, 2, {0, 4}, 2, "3g.40gb", "3g.71gb"},
    {NVML_GPU_INSTANCE_PROFILE_4_SLICE, 5, 4, 4, 1, {0}, 1, "4g.40gb", "4g.71gb"},
    {NVML_GPU_INSTANCE_PROFILE_7_SLICE, 0, 8, 7, 1, {0}, 1, "7g.80gb", "7g.141gb"},
};
#define RULES (sizeof rules / sizeof rules[0])

struct placed_instance {
    unsigned rule, start;
    nvmlGpuInstance_t handle;
};

struct placed_set {
    struct placed_instance instances[8];
    unsigned count;              /* of instances */
    unsigned set_count, refused; /* sets that were visited, and requests that were refused in them */
};

static nvmlDevice_t gpu_handle(unsigned index)
{
    nvmlDevice_t device;

    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
    return device;
}

/* Whether an instance fits: no slice of memory is used twice, no more than 7 slices of compute are used, and the
 * profile is not used too often. */
static bool may_add(const struct placed_set *placed_set, unsigned rule, unsigned start)
{
    unsigned same = 0, compute = rules[rule].compute;

    for (unsigned i = 0; i < placed_set->count; i++) {
        const struct rule *other = &rules[placed_set->instances[i].rule];
        unsigned begin = placed_set->instances[i].start;

        if (start < begin + other->memory && begin < start + rules[rule].memory)
            return false;
        same += placed_set->instances[i].rule == rule;
        compute += other->compute;
    }
    return same < rules[rule].max_count && compute <= 7;
}

/* How many more instances of a profile fit at most: tries all ways to place them. */
static unsigned most_instances_more(struct placed_set *placed_set, unsigned rule)
{
    unsigned max_count = 0;

    for (unsigned i = 0; i < rules[rule].start_count; i++) {
        if (!may_add(placed_set, rule, rules[rule].starts[i]))
            continue;
        placed_set->instances[placed_set->count++] =
            (struct placed_instance){.rule = rule, .start = rules[rule].starts[i]};
        unsigned more = 1 + most_instances_more(placed_set, rule);
        placed_set->count--;
        max_count = more > max_count ? more : max_count;
    }
    return max_count;
}

static void check_ids(const struct placed_set *placed_set)
{
    unsigned seen = 0;

    for (unsigned i = 0; i < placed_set->count; i++) {
        nvmlGpuInstanceInfo_t info;

        assert_int_equal(nvmlGpuInstanceGetInfo(placed_set->instances[i].handle, &info), NVML_SUCCESS);
        assert_int_equal(info.profileId, rules[placed_set->instances[i].rule].id);
        assert_int_equal(info.placement.start, placed_set->instances[i].start);
        assert_int_equal(info.placement.size, rules[placed_set->instances[i].rule].memory);
        assert_false(seen >> info.id & 1);
        seen |= 1u << info.id;
    }
}

static void check_capacity(struct placed_set *placed_set)
{
    for (unsigned rule = 0; rule < RULES; rule++) {
        unsigned left;

        assert_int_equal(nvmlDeviceGetGpuInstanceRemainingCapacity(gpu_handle(0), rules[rule].id, &left), NVML_SUCCESS);
        assert_int_equal(left, most_instances_more(placed_set, rule));
    }
}

/*
 * Visits every set once, by adding instances in rising order of their numbers: a number stands for a start and a
 * profile. All other instances are tried, too: the test fails if one can be created that the tables forbid, and an
 * instance whose number is below `from` is destroyed again, because its set is visited elsewhere.
 */
static void explore_sets(struct placed_set *placed_set, unsigned from)
{
    placed_set->set_count++;
    check_ids(placed_set);
    check_capacity(placed_set);
    for (unsigned number = 0; number < RULES * 8; number++) {
        unsigned rule = number % RULES, start = number / RULES;
        nvmlGpuInstancePlacement_t placement = {start, rules[rule].memory};
        nvmlGpuInstance_t made;
        bool listed = false;

        for (unsigned i = 0; i < rules[rule].start_count; i++)
            listed |= rules[rule].starts[i] == start;
        nvmlReturn_t result =
            nvmlDeviceCreateGpuInstanceWithPlacement(gpu_handle(0), rules[rule].id, &placement, &made);
        if (!listed || !may_add(placed_set, rule, start)) {
            assert_int_equal(result, listed ? NVML_ERROR_INSUFFICIENT_RESOURCES : NVML_ERROR_INVALID_ARGUMENT);
            placed_set->refused++;
            continue;
        }
        assert_int_equal(result, NVML_SUCCESS);
        if (number >= from) {
            placed_set->instances[placed_set->count++] = (struct placed_instance){rule, start, made};
            explore_sets(placed_set, number + 1);
            placed_set->count--;
        }
        assert_int_equal(nvmlGpuInstanceDestroy(made), NVML_SUCCESS);
    }
}

static void test_each_set_of_gpu_instances_follows_the_tables(void **state)
{
    struct placed_set placed_set = {0};

    explore_sets(&placed_set, 0);
    assert_true(placed_set.set_count > 500); /* the search has not ended early */
    assert_true(placed_set.refused > placed_set.set_count);
}

static void test_gpu_profiles_are_as_documented(void **state)
{
    for (unsigned rule = 0; rule < RULES; rule++)
        for (unsigned device = 0; device < 2; device++) {
            nvmlGpuInstanceProfileInfo_v2_t info = {.version = VENDOR_NVML_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2)};
            nvmlGpuInstancePlacement_t places[8];
            unsigned count = 8, gib = device ? 141 : 80;

            assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfoV(gpu_handle(device), rules[rule].profile_index, &info),
                             NVML_SUCCESS);
            assert_int_equal(info.id, rules[rule].id);
            assert_int_equal(info.instanceCount, rules[rule].max_count);
            assert_int_equal(info.sliceCount, rules[rule].compute);
            assert_int_equal(info.memorySizeMB, gib * 1024 / 8 * rules[rule].memory);
            assert_string_equal(info.name, device ? rules[rule].name_141 : rules[rule].name_80);
            assert_int_equal(nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu_handle(device), info.id, places, &count),
                             NVML_SUCCESS);
            assert_int_equal(count, rules[rule].start_count);
            for (unsigned i = 0; i < count; i++)
                assert_int_equal(places[i].start, rules[rule].starts[i]);
        }

    nvmlGpuInstanceProfileInfo_t info;
    assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfo(gpu_handle(0), NVML_GPU_INSTANCE_PROFILE_8_SLICE, &info),
                     NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfo(gpu_handle(0), NVML_GPU_INSTANCE_PROFILE_COUNT, &info),
                     NVML_ERROR_INVALID_ARGUMENT);
}

/* Where compute instances may begin in GPU instances of 1, 2, 3, 4 and 7 slices: a digit for each start. */
static const struct {
    unsigned gpu_profile, slices;
    const char *starts[8]; /* by slices of the compute instance */
} compute_rules[] = {
    {19, 1, {[1] = "0"}},
    {14, 2, {[1] = "01", [2] = "0"}},
    {9, 3, {[1] = "012", [2] = "0", [3] = "0"}},
    {5, 4, {[1] = "0123", [2] = "02", [4] = "0"}},
    {0, 7, {[1] = "0123456", [2] = "024", [3] = "04", [4] = "0", [7] = "0"}},
};

static const unsigned slices_of_profile[] = {1, 2, 3, 4, 7}; /* by the index of a compute profile */

struct computes {
    unsigned taken_mask, set_count; /* the mask has a bit for each slice in use */
};

static void explore_computes(nvmlGpuInstance_t parent, unsigned rule, struct computes *computes, unsigned from)
{
    computes->set_count++;
    for (unsigned number = 0; number < 5 * 7; number++) {
        unsigned profile_index = number % 5, slices = slices_of_profile[profile_index], start = number / 5;
        const char *starts = compute_rules[rule].starts[slices];
        nvmlComputeInstancePlacement_t placement = {start, slices};
        unsigned slice_mask = ((1u << slices) - 1) << start;
        nvmlComputeInstance_t made;

        nvmlReturn_t result =
            nvmlGpuInstanceCreateComputeInstanceWithPlacement(parent, profile_index, &placement, &made);
        if (!starts || !strchr(starts, (int)('0' + start)) || slice_mask & computes->taken_mask) {
            assert_int_equal(result, !starts                               ? NVML_ERROR_NOT_SUPPORTED
                                     : !strchr(starts, (int)('0' + start)) ? NVML_ERROR_INVALID_ARGUMENT
                                                                           : NVML_ERROR_INSUFFICIENT_RESOURCES);
            continue;
        }
        assert_int_equal(result, NVML_SUCCESS);
        if (number >= from) {
            computes->taken_mask |= slice_mask;
            explore_computes(parent, rule, computes, number + 1);
            computes->taken_mask &= ~slice_mask;
        }
        assert_int_equal(nvmlComputeInstanceDestroy(made), NVML_SUCCESS);
    }
}

static void test_each_set_of_compute_instances_follows_the_tables(void **state)
{
    for (unsigned rule = 0; rule < sizeof compute_rules / sizeof compute_rules[0]; rule++) {
        struct computes computes = {0};
        nvmlGpuInstance_t parent;

        assert_int_equal(nvmlDeviceCreateGpuInstance(gpu_handle(0), compute_rules[rule].gpu_profile, &parent),
                         NVML_SUCCESS);
        explore_computes(parent, rule, &computes, 0);
        assert_true(computes.set_count > compute_rules[rule].slices);
        assert_int_equal(nvmlGpuInstanceDestroy(parent), NVML_SUCCESS);
    }
}

/* A compute instance is a device that is found by its UUID, has the memory of its GPU instance, and ends with it. */
static void test_a_compute_instance_is_a_device(void **state)
{
    nvmlGpuInstance_t parent;
    nvmlComputeInstance_t compute;
    nvmlDevice_t mig, found, whole;
    nvmlDeviceAttributes_t attributes;
    nvmlMemory_t memory;
    char uuid[NVML_DEVICE_UUID_BUFFER_SIZE];
    unsigned is_mig, id;

    assert_int_equal(nvmlDeviceCreateGpuInstance(gpu_handle(1), 14 /* 2g.35gb */, &parent), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(gpu_handle(1), 0, &mig), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlGpuInstanceCreateComputeInstance(parent, 1, &compute), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(gpu_handle(1), 0, &mig), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceIsMigDeviceHandle(mig, &is_mig), NVML_SUCCESS);
    assert_true(is_mig);
    assert_int_equal(nvmlDeviceGetUUID(mig, uuid, sizeof uuid), NVML_SUCCESS);
    assert_memory_equal(uuid, "MIG-", 4);
    assert_int_equal(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_SUCCESS);
    assert_ptr_equal(found, mig);
    assert_int_equal(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig, &whole), NVML_SUCCESS);
    assert_ptr_equal(whole, gpu_handle(1));
    assert_int_equal(nvmlDeviceGetAttributes_v2(mig, &attributes), NVML_SUCCESS);
    assert_int_equal(attributes.multiprocessorCount, 32);
    assert_int_equal(attributes.gpuInstanceSliceCount, 2);
    assert_int_equal(nvmlDeviceGetMemoryInfo(mig, &memory), NVML_SUCCESS);
    assert_int_equal(memory.total, UINT64_C(141) * 1024 / 4 << 20); /* two of eight slices */
    assert_int_equal(nvmlDeviceGetGpuInstanceId(mig, &id), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetGpuInstanceById(gpu_handle(1), id, &parent), NVML_SUCCESS);

    assert_int_equal(nvmlGpuInstanceDestroy(parent), NVML_ERROR_IN_USE);
    assert_int_equal(nvmlComputeInstanceDestroy(compute), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetUUID(mig, uuid, sizeof uuid), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlGpuInstanceDestroy(parent), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetGpuInstanceById(gpu_handle(1), id, &parent), NVML_ERROR_NOT_FOUND);
}

/* A device in use changes its mode later; a device with instances does not change back; a small device has no mode. */
static void test_mig_mode_changes_only_on_an_unused_gpu(void **state)
{
    nvmlReturn_t activation;
    unsigned current, pending;
    nvmlGpuInstance_t instance;

    pid_t neighbour = test_machine_neighbour(2, 1 << 20);
    assert_int_equal(nvmlDeviceSetMigMode(gpu_handle(2), NVML_DEVICE_MIG_ENABLE, &activation), NVML_SUCCESS);
    assert_int_equal(activation, NVML_ERROR_IN_USE);
    assert_int_equal(nvmlDeviceGetMigMode(gpu_handle(2), &current, &pending), NVML_SUCCESS);
    assert_int_equal(current, NVML_DEVICE_MIG_DISABLE);
    assert_int_equal(pending, NVML_DEVICE_MIG_ENABLE);
    assert_int_equal(nvmlDeviceCreateGpuInstance(gpu_handle(2), 0, &instance), NVML_ERROR_NOT_SUPPORTED);
    test_machine_dismiss(neighbour);
    assert_int_equal(nvmlDeviceSetMigMode(gpu_handle(2), NVML_DEVICE_MIG_ENABLE, &activation), NVML_SUCCESS);
    assert_int_equal(activation, NVML_SUCCESS);
    assert_int_equal(nvmlDeviceCreateGpuInstance(gpu_handle(2), 0, &instance), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceSetMigMode(gpu_handle(2), NVML_DEVICE_MIG_DISABLE, &activation), NVML_SUCCESS);
    assert_int_equal(activation, NVML_ERROR_IN_USE);
    assert_int_equal(nvmlGpuInstanceDestroy(instance), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetMigMode(gpu_handle(3), &current, &pending), NVML_ERROR_NOT_SUPPORTED);
}

static int set_up(void **state)
{
    nvmlReturn_t activation;

    test_machine_make(4, "80G,141G,80G,8G");
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    for (unsigned device = 0; device < 2; device++) {
        assert_int_equal(nvmlDeviceSetMigMode(gpu_handle(device), NVML_DEVICE_MIG_ENABLE, &activation), NVML_SUCCESS);
        assert_int_equal(activation, NVML_SUCCESS);
    }
    return 0;
}

static int tear_down(void **state)
{
    test_machine_remove();
    return nvmlShutdown();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpu_profiles_are_as_documented),
        cmocka_unit_test(test_each_set_of_gpu_instances_follows_the_tables),
        cmocka_unit_test(test_each_set_of_compute_instances_follows_the_tables),
        cmocka_unit_test(test_a_compute_instance_is_a_device),
        cmocka_unit_test(test_mig_mode_changes_only_on_an_unused_gpu),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
