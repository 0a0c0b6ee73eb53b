/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a function's older forms, and its forms for the per-thread default stream, charge like the
 * newest form. Never: tests forms of launches and copies (test_execution.c, tests/unit/interpose).
 */
#include "machine.h"

/* ---- contexts ---- */

static CUresult make_by_v3(CUcontext *context, unsigned flags, CUdevice device)
{
    return cuda.cuCtxCreate_v3(context, NULL, 0, flags, device);
}

static CUresult make_by_v4(CUcontext *context, unsigned flags, CUdevice device)
{
    return cuda.cuCtxCreate_v4(context, NULL, flags, device);
}

static CUresult make_for_vdpau(CUcontext *context, unsigned flags, CUdevice device)
{
    return cuda.cuVDPAUCtxCreate(context, flags, device, 0, NULL);
}

static CUresult make_for_vdpau_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    return cuda.cuVDPAUCtxCreate_v2(context, flags, device, 0, NULL);
}

/* `argument`: the quota has no room for a context. Then each form is refused and leaves no context behind. */
static void role_each_context_form(void *argument)
{
    role_open();
    CUresult (*const makes[])(CUcontext *, unsigned, CUdevice) = {
        cuda.cuCtxCreate,   cuda.cuCtxCreate_v2,   make_by_v3,     make_by_v4,
        cuda.cuGLCtxCreate, cuda.cuGLCtxCreate_v2, make_for_vdpau, make_for_vdpau_v2};
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) {
        CUcontext context;

        CHECK_EQUAL(makes[i](&context, 0, 0), argument ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
        CHECK_EQUAL(machine_charged_to_self(0), argument ? 0 : MACHINE_CONTEXT);
        CHECK_EQUAL(fake_used(0), machine_charged_to_self(0));
        if (!argument)
            CHECK_EQUAL((i % 2 ? cuda.cuCtxDestroy_v2 : cuda.cuCtxDestroy)(context), CUDA_SUCCESS);
        CHECK_EQUAL(machine_charged_to_self(0), 0);
        CHECK_EQUAL(fake_used(0), 0);
    }
}

static void test_a_context_is_charged_however_it_is_made_and_ended(void **state)
{
    const uint64_t limit = MACHINE_CONTEXT - 1;

    machine_run(role_each_context_form, GIB);
    machine_make(1, &limit, "300M");
    machine_wait(machine_start(role_each_context_form, &machine, true));
    machine_remove();
}

static void role_primary_context_forms(void *argument)
{
    CUcontext context;

    role_open();
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(cuda.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
        CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT);
        CHECK_EQUAL((i ? cuda.cuDevicePrimaryCtxReset : cuda.cuDevicePrimaryCtxRelease)(0), CUDA_SUCCESS);
        CHECK_EQUAL(machine_charged_to_self(0), 0);
        CHECK_EQUAL(fake_used(0), 0);
    }
}

static void test_a_primary_context_is_given_back_by_the_older_forms(void **state)
{
    machine_run(role_primary_context_forms, GIB);
}

/* ---- memory ---- */

/* A function whose sizes have 32 bits reports the size, or UINT32_MAX for a larger one. */
static void role_sizes_of_32_bits(void *argument)
{
    const uint64_t *quota = argument;
    unsigned free_bytes, total;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuDeviceTotalMem(&total, 0), CUDA_SUCCESS);
    CHECK_EQUAL(total, *quota < UINT32_MAX ? *quota : UINT32_MAX);
    CHECK_EQUAL(cuda.cuMemGetInfo(&free_bytes, &total), CUDA_SUCCESS);
    CHECK_EQUAL(total, *quota < UINT32_MAX ? *quota : UINT32_MAX);
    CHECK_EQUAL(free_bytes, *quota - MACHINE_CONTEXT < UINT32_MAX ? *quota - MACHINE_CONTEXT : UINT32_MAX);
    CHECK_EQUAL(cuda.cuMemGetInfo(NULL, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDeviceTotalMem(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuDeviceTotalMem(&total, 7), CUDA_ERROR_INVALID_DEVICE);
}

static void test_sizes_of_32_bits_report_the_quota_or_their_maximum(void **state)
{
    /* with the second quota, only the free memory fits into 32 bits */
    uint64_t quotas[] = {GIB, 4 * GIB + MACHINE_CONTEXT / 2, 6 * GIB};

    for (size_t i = 0; i < sizeof quotas / sizeof quotas[0]; i++) {
        machine_make(1, &quotas[i], "300M");
        machine_wait(machine_start(role_sizes_of_32_bits, &quotas[i], true));
        machine_remove();
    }
}

static void role_array_forms(void *argument)
{
    CUDA_ARRAY_DESCRIPTOR_v1 flat = {.Width = 1000, .Height = 1000, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR_v1 deep = {
        .Width = 100, .Height = 50, .Depth = 10, .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
    CUarray array;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuArrayCreate(&array, &flat), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT + 16384000); /* 1000 rows of 16384 bytes */
    CHECK_EQUAL(fake_requested(0), 16384000);
    CHECK_EQUAL(cuda.cuArrayDestroy(array), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuArray3DCreate(&array, &deep), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT + 4 * 64 * KIB); /* 512 * 50 * 10, in steps of 64 KiB */
    CHECK_EQUAL(fake_requested(0), 4 * 64 * KIB);
    CHECK_EQUAL(cuda.cuArrayDestroy(array), CUDA_SUCCESS);
    flat.Height = 10 * 1000 * 1000; /* more than any array can have */
    CHECK_EQUAL(cuda.cuArrayCreate(&array, &flat), CUDA_ERROR_INVALID_VALUE);
    flat.Height = 65536;
    CHECK_EQUAL(cuda.cuArrayCreate(&array, &flat), CUDA_ERROR_OUT_OF_MEMORY);
    deep.Height = 100 * 1000;
    deep.Depth = 1000; /* too high for an array; with a tenth of the height, only too large for the quota */
    CHECK_EQUAL(cuda.cuArray3DCreate(&array, &deep), CUDA_ERROR_INVALID_VALUE);
    deep.Height = 10 * 1000;
    CHECK_EQUAL(cuda.cuArray3DCreate(&array, &deep), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuArrayCreate(&array, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuArray3DCreate(&array, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT);
}

static void test_arrays_of_the_older_forms_are_charged_by_their_rows(void **state)
{
    machine_run(role_array_forms, GIB);
}

static void role_pool_forms(void *argument)
{
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUdeviceptr pointer, other;
    CUmemoryPool pool;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync_ptsz(&pointer, 40 * MIB, pool, NULL), CUDA_SUCCESS);
    CHECK(fake_used_of_kind(0, FAKE_POOL) >= 40 * MIB);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT + fake_used_of_kind(0, FAKE_POOL));
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync_ptsz(&other, GIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuMemFreeAsync_ptsz(pointer, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolDestroy(pool), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, GIB - MACHINE_CONTEXT), CUDA_SUCCESS); /* the pool holds no memory */
}

static void test_a_pool_is_charged_in_the_per_thread_stream(void **state)
{
    machine_run(role_pool_forms, GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_context_is_charged_however_it_is_made_and_ended),
        cmocka_unit_test(test_a_primary_context_is_given_back_by_the_older_forms),
        cmocka_unit_test(test_sizes_of_32_bits_report_the_quota_or_their_maximum),
        cmocka_unit_test(test_arrays_of_the_older_forms_are_charged_by_their_rows),
        cmocka_unit_test(test_a_pool_is_charged_in_the_per_thread_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
