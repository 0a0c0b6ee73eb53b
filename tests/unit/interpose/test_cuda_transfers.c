/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the expectations for each of CUDA's copies and fills (transfers.h). Never: leaves out a hook of the list. */
#include "interpose/cuda/hooks.h"
#include "transfers.h"

static const CUDA_MEMCPY2D rows_2d = {.WidthInBytes = 21, .Height = 5};
static const CUDA_MEMCPY3D box = {.WidthInBytes = 21, .Height = 5, .Depth = 3};
static const CUDA_MEMCPY3D_PEER box_of_peer = {.WidthInBytes = 21, .Height = 5, .Depth = 3};

/* A call reads as many of these sizes as its word for the count says, and none behind them. */
static const size_t sizes[WORDS] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
static CUDA_MEMCPY3D_BATCH_OP boxes[WORDS];
static CUmemDecompressParams decompressions[WORDS];
#define SUM(count) ((UINT64_C(1) << (count)) - 1)

/* Each macro says how many bytes a call moves; `n` is the index of one of the call's argument words, from 0. */

/* Word `n` is the number of bytes. */
#define SIZE_AT(n) .unit = 1, .factors = {(n) + 1}
/* Word `n` times the next word is the number of elements of `size` bytes. */
#define AREA_AT(size, n) .unit = (size), .factors = {(n) + 1, (n) + 2}
/* Word `n` is the number of elements of `size` bytes. */
#define COUNT_AT(size, n) .unit = (size), .factors = {(n) + 1}
/* The first word points at the structure `what`, which describes `amount` bytes (21 * 5, or 21 * 5 * 3). */
#define POINTED(what, amount) .bytes = (amount), .pointers = {what}

static const struct row rows[] = {
    {"cuMemcpyAsync", FIRST_WORDS(4), SIZE_AT(2)},
    {"cuMemcpyPeerAsync", FIRST_WORDS(6), SIZE_AT(4)},
    {"cuMemcpyHtoDAsync_v2", FIRST_WORDS(4), SIZE_AT(2)},
    {"cuMemcpyDtoHAsync_v2", FIRST_WORDS(4), SIZE_AT(2)},
    {"cuMemcpyDtoDAsync_v2", FIRST_WORDS(4), SIZE_AT(2)},
    {"cuMemcpy2DAsync_v2", FIRST_WORDS(2), POINTED(&rows_2d, 105)},
    {"cuMemcpy3DAsync_v2", FIRST_WORDS(2), POINTED(&box, 315)},
    {"cuMemcpy3DPeerAsync", FIRST_WORDS(2), POINTED(&box_of_peer, 315)},
    {"cuMemcpyHtoAAsync_v2", FIRST_WORDS(5), SIZE_AT(3)},
    {"cuMemcpyAtoHAsync_v2", FIRST_WORDS(5), SIZE_AT(3)},
    {"cuMemcpyBatchAsync", FIRST_WORDS(9), .bytes = SUM(WORD(3)), .pointers = {NULL, NULL, sizes}},
    {"cuMemcpyBatchAsync_v2", FIRST_WORDS(8), .bytes = SUM(WORD(3)), .pointers = {NULL, NULL, sizes}},
    {"cuMemcpy3DBatchAsync", FIRST_WORDS(5), .bytes = SUM(WORD(0)), .pointers = {NULL, boxes}},
    {"cuMemcpy3DBatchAsync_v2", FIRST_WORDS(4), .bytes = SUM(WORD(0)), .pointers = {NULL, boxes}},
    {"cuMemBatchDecompressAsync", FIRST_WORDS(5), POINTED(decompressions, SUM(WORD(1)))},
    {"cuMemPrefetchAsync", FIRST_WORDS(4), SIZE_AT(1)},
    {"cuMemPrefetchAsync_v2", FIRST_WORDS(5), SIZE_AT(1)},
    {"cuMemPrefetchBatchAsync", FIRST_WORDS(8), .bytes = SUM(WORD(2)), .pointers = {NULL, sizes}},
    {"cuMemDiscardAndPrefetchBatchAsync", FIRST_WORDS(8), .bytes = SUM(WORD(2)), .pointers = {NULL, sizes}},
    {"cuMemsetD8Async", FIRST_WORDS(4), SIZE_AT(2)},
    {"cuMemsetD16Async", FIRST_WORDS(4), COUNT_AT(2, 2)},
    {"cuMemsetD32Async", FIRST_WORDS(4), COUNT_AT(4, 2)},
    {"cuMemsetD2D8Async", FIRST_WORDS(6), AREA_AT(1, 3)},
    {"cuMemsetD2D16Async", FIRST_WORDS(6), AREA_AT(2, 3)},
    {"cuMemsetD2D32Async", FIRST_WORDS(6), AREA_AT(4, 3)},
    {"cuMemcpy", FIRST_WORDS(3), SIZE_AT(2)},
    {"cuMemcpyPeer", FIRST_WORDS(5), SIZE_AT(4)},
    {"cuMemcpyHtoD_v2", FIRST_WORDS(3), SIZE_AT(2)},
    {"cuMemcpyDtoH_v2", FIRST_WORDS(3), SIZE_AT(2)},
    {"cuMemcpyDtoD_v2", FIRST_WORDS(3), SIZE_AT(2)},
    {"cuMemcpyDtoA_v2", FIRST_WORDS(4), SIZE_AT(3)},
    {"cuMemcpyAtoD_v2", FIRST_WORDS(4), SIZE_AT(3)},
    {"cuMemcpyHtoA_v2", FIRST_WORDS(4), SIZE_AT(3)},
    {"cuMemcpyAtoH_v2", FIRST_WORDS(4), SIZE_AT(3)},
    {"cuMemcpyAtoA_v2", FIRST_WORDS(5), SIZE_AT(4)},
    {"cuMemcpy2D_v2", FIRST_WORDS(1), POINTED(&rows_2d, 105)},
    {"cuMemcpy2DUnaligned_v2", FIRST_WORDS(1), POINTED(&rows_2d, 105)},
    {"cuMemcpy3D_v2", FIRST_WORDS(1), POINTED(&box, 315)},
    {"cuMemcpy3DPeer", FIRST_WORDS(1), POINTED(&box_of_peer, 315)},
    {"cuMemsetD8_v2", FIRST_WORDS(3), SIZE_AT(2)},
    {"cuMemsetD16_v2", FIRST_WORDS(3), COUNT_AT(2, 2)},
    {"cuMemsetD32_v2", FIRST_WORDS(3), COUNT_AT(4, 2)},
    {"cuMemsetD2D8_v2", FIRST_WORDS(5), AREA_AT(1, 3)},
    {"cuMemsetD2D16_v2", FIRST_WORDS(5), AREA_AT(2, 3)},
    {"cuMemsetD2D32_v2", FIRST_WORDS(5), AREA_AT(4, 3)},
};

/* The extent or the sizes of an entry alone give the bytes that it moves, regardless of its other fields. */
static int setup(void **state)
{
    memset(boxes, 0xA5, sizeof boxes);
    memset(decompressions, 0xA5, sizeof decompressions);
    for (unsigned i = 0; i < WORDS; i++) {
        boxes[i].extent = (CUextent3D){(size_t)1 << i, 1, 1};
        decompressions[i].srcNumBytes = (size_t)1 << i;
        decompressions[i].dstNumBytes = 0;
    }
    return 0;
}

static void test_each_transfer_passes_its_arguments_on_and_counts_its_bytes(void **state)
{
#define CHECK(symbol, name, version, stream)                                                                           \
    check_transfer(#symbol, rows, sizeof rows / sizeof rows[0], (void *)facet_##symbol,                                \
                   (void **)&facet_cuda_driver.symbol);
    FACET_CUDA_TRANSFER_HOOKS(CHECK)
    FACET_CUDA_WAITED_HOOKS(CHECK)
#undef CHECK
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_transfer_passes_its_arguments_on_and_counts_its_bytes),
    };

    return cmocka_run_group_tests_name("CUDA transfers", tests, setup, NULL);
}
