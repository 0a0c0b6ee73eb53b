/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of which copies count as launches, and in which vGPU, and that lists that cannot be read are refused.
 * Never: decides by a time of this machine. */
#include <sys/mman.h>
#include <time.h>

#include "machine.h"

/* A launch is reported only after it has run: waits for that, up to 5 s. */
static void check_launches(int line, uint32_t device, uint64_t count)
{
    struct facet_usage_totals totals = test_segment_totals(&machine.segments[device]);

    for (int i = 0; i < 5000 && (totals.launches < count || totals.inflight); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        totals = test_segment_totals(&machine.segments[device]);
    }
    if (totals.launches != count)
        fprintf(stderr, "the check in line %d fails for device %u:\n", line, device);
    CHECK_EQUAL(totals.launches, count);
    CHECK_EQUAL(totals.inflight, 0);
}
#define CHECK_LAUNCHES(device, count) check_launches(__LINE__, device, count)

/* ---- small transfers on several GPUs ---- */

static CUdeviceptr buffers[2];

static void fill_times(uint32_t device, int times, CUresult (*call)(CUdeviceptr, unsigned char, size_t))
{
    role_enter((CUdevice)device);
    for (int i = 0; i < times; i++)
        CHECK_EQUAL(call(buffers[device], 1, 1), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxSynchronize(), CUDA_SUCCESS);
}

/* A small transfer counts its bytes and 64 KiB, so sixteen of them on one GPU make the 1 MiB that counts as one launch
 * there. */
static void role_transfers_on_two_devices(void *argument)
{
    uint64_t before = 0;

    role_open();
    for (uint32_t i = 0; i < 2; i++) {
        role_enter((CUdevice)i);
        CHECK_EQUAL(cuda.cuMemAlloc_v2(&buffers[i], MIB), CUDA_SUCCESS);
    }
    for (int form = 0; form < 2; form++, before++) {
        CUresult (*call)(CUdeviceptr, unsigned char, size_t) = form ? cuda.cuMemsetD8_v2_ptds : cuda.cuMemsetD8_v2;

        fill_times(0, 12, call);
        fill_times(1, 4, call);
        CHECK_LAUNCHES(0, before);
        CHECK_LAUNCHES(1, before);
        fill_times(0, 4, call);
        CHECK_LAUNCHES(0, before + 1);
        CHECK_LAUNCHES(1, before);
        fill_times(1, 12, call);
        CHECK_LAUNCHES(0, before + 1);
        CHECK_LAUNCHES(1, before + 1);
    }
}

static void test_small_copies_are_summed_for_each_gpu(void **state)
{
    machine_make(2, (uint64_t[]){GIB, GIB}, "300M");
    machine_wait(machine_start(role_transfers_on_two_devices, NULL, true));
    machine_remove();
}

/* ---- batches ---- */

static void role_unreadable(void *argument)
{
    long page = sysconf(_SC_PAGESIZE);
    unsigned char *readable = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t *sizes = (size_t *)(void *)readable, *wild = (size_t *)(uintptr_t)64, absurd = SIZE_MAX / 16;
    CUdeviceptr *pointers = (CUdeviceptr *)(void *)readable;
    CUmemLocation *places = (CUmemLocation *)(void *)readable;

    CHECK(readable != MAP_FAILED && mprotect(readable + page, (size_t)page, PROT_NONE) == 0);
    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemcpyBatchAsync_v2(NULL, pointers, wild, 3, NULL, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemcpyBatchAsync(pointers, NULL, wild, 3, NULL, NULL, 0, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemcpyBatchAsync_v2(pointers, pointers, NULL, absurd, NULL, NULL, 0, NULL),
                CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemcpyBatchAsync_v2(pointers, pointers, sizes, absurd, NULL, NULL, 0, NULL),
                CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemcpyBatchAsync(pointers, pointers, sizes, absurd, NULL, NULL, 0, NULL, NULL),
                CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda.cuMemcpy3DBatchAsync_v2(absurd, (CUDA_MEMCPY3D_BATCH_OP *)(void *)readable, 0, NULL) != CUDA_SUCCESS);
    CHECK(cuda.cuMemPrefetchBatchAsync(pointers, sizes, absurd, places, sizes, 1, 0, NULL) != CUDA_SUCCESS);
    CHECK(cuda.cuMemPrefetchBatchAsync(NULL, wild, 3, places, sizes, 1, 0, NULL) != CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemBatchDecompressAsync(NULL, 3, 0, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemBatchDecompressAsync((CUmemDecompressParams *)(void *)readable, absurd, 0, NULL, NULL),
                CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_LAUNCHES(0, 0); /* the absurd requests were admitted, but are not counted, because the driver refused them */
}

static void test_the_driver_refuses_lists_that_cannot_be_read(void **state)
{
    machine_run(role_unreadable, GIB);
}

/* A batch of more than 4096 transfers is not read before the driver's call: it counts as a launch, however few bytes it
 * has. */
static void role_long_batch(void *argument)
{
    enum { TRANSFERS = 5000 };
    static CUdeviceptr to[TRANSFERS], from[TRANSFERS];
    static size_t sizes[TRANSFERS];
    CUdeviceptr pointer;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, MIB), CUDA_SUCCESS);
    for (uint32_t i = 0; i < TRANSFERS; i++) {
        to[i] = pointer;
        from[i] = pointer + 64;
        sizes[i] = 1;
    }
    CHECK_EQUAL(cuda.cuMemcpyBatchAsync_v2(to, from, sizes, TRANSFERS, NULL, NULL, 0, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_LAUNCHES(0, 1);
}

static void test_a_batch_too_long_to_read_counts(void **state)
{
    machine_run(role_long_batch, GIB);
}

static void role_batch_decompression(void *argument)
{
    CUmemDecompressParams list[2] = {{.srcNumBytes = MIB / 2}, {.srcNumBytes = 1, .dstNumBytes = MIB / 2}};

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemBatchDecompressAsync(list, 2, 0, NULL, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_LAUNCHES(0, 1); /* 1 MiB and a byte */
    CHECK_EQUAL(cuda.cuMemBatchDecompressAsync(list, 1, 0, NULL, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_LAUNCHES(0, 1); /* this batch is too small to count */
}

static void test_decompressed_bytes_count_as_copied_bytes(void **state)
{
    machine_run(role_batch_decompression, GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_copies_are_summed_for_each_gpu),
        cmocka_unit_test(test_the_driver_refuses_lists_that_cannot_be_read),
        cmocka_unit_test(test_a_batch_too_long_to_read_counts),
        cmocka_unit_test(test_decompressed_bytes_count_as_copied_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
