/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the expectations for each of HIP's copies and fills (transfers.h). Never: leaves out a hook of the list. */
#include "interpose/hip/hooks.h"
#include "interpose/hip/initialize.h"
#include "transfers.h"

static const hip_Memcpy2D rows_2d = {.WidthInBytes = 21, .Height = 5};
static const hipMemcpy3DParms box = {.extent = {21, 5, 3}};
static const hipMemcpy3DPeerParms box_of_peer = {.extent = {21, 5, 3}};

/* A call reads as many of these sizes as its word for the count says, and none behind them. */
static const size_t sizes[WORDS] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
static hipMemcpy3DBatchOp boxes[WORDS];
#define SUM(count) ((UINT64_C(1) << (count)) - 1)

/* A pitched pointer and an extent lie on the stack even when registers are free; other processors differ. */
#ifdef __x86_64__
#define FILL_BOX(registers)                                                                                            \
    .words = FIRST_WORDS(registers) | FIRST_WORDS(4 + 3) << REGISTERS, .unit = 1,                                      \
    .factors = {REGISTERS + 4 + 1, REGISTERS + 4 + 2, REGISTERS + 4 + 3}
#else
#define FILL_BOX(registers) .words = 0
#endif

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
    {"hipMemcpyAsync", FIRST_WORDS(5), SIZE_AT(2)},
    {"hipMemcpyWithStream", FIRST_WORDS(5), SIZE_AT(2)},
    {"hipMemsetAsync", FIRST_WORDS(4), SIZE_AT(2)},
    {"hipMemset2DAsync", FIRST_WORDS(6), AREA_AT(1, 3)},
    {.name = "hipMemset3DAsync", FILL_BOX(2)},
    {"hipMemcpy2DAsync", FIRST_WORDS(8), AREA_AT(1, 4)},
    {"hipMemcpy2DToArrayAsync", FIRST_WORDS(9), AREA_AT(1, 5)},
    {"hipMemcpy2DFromArrayAsync", FIRST_WORDS(9), AREA_AT(1, 5)},
    {"hipMemcpy3DAsync", FIRST_WORDS(2), POINTED(&box, 315)},
    {"hipMemcpyToSymbolAsync", FIRST_WORDS(6), SIZE_AT(2)},
    {"hipMemcpyFromSymbolAsync", FIRST_WORDS(6), SIZE_AT(2)},
    {"hipMemcpyToSymbol", FIRST_WORDS(5), SIZE_AT(2)},
    {"hipMemcpyFromSymbol", FIRST_WORDS(5), SIZE_AT(2)},
    {"hipMemcpy", FIRST_WORDS(4), SIZE_AT(2)},
    {"hipMemcpyFromArray", FIRST_WORDS(6), SIZE_AT(4)},
    {"hipMemcpy2D", FIRST_WORDS(7), AREA_AT(1, 4)},
    {"hipMemcpy2DToArray", FIRST_WORDS(8), AREA_AT(1, 5)},
    {"hipMemcpy2DFromArray", FIRST_WORDS(8), AREA_AT(1, 5)},
    {"hipMemcpy3D", FIRST_WORDS(1), POINTED(&box, 315)},
    {"hipMemset", FIRST_WORDS(3), SIZE_AT(2)},
    {"hipMemset2D", FIRST_WORDS(5), AREA_AT(1, 3)},
    {.name = "hipMemset3D", FILL_BOX(1)},
    {"hipMemcpyHtoDAsync", FIRST_WORDS(4), SIZE_AT(2)},
    {"hipMemcpyDtoHAsync", FIRST_WORDS(4), SIZE_AT(2)},
    {"hipMemcpyDtoDAsync", FIRST_WORDS(4), SIZE_AT(2)},
    {"hipMemcpyPeerAsync", FIRST_WORDS(6), SIZE_AT(4)},
    {"hipMemsetD8Async", FIRST_WORDS(4), SIZE_AT(2)},
    {"hipMemsetD16Async", FIRST_WORDS(4), COUNT_AT(2, 2)},
    {"hipMemsetD32Async", FIRST_WORDS(4), COUNT_AT(4, 2)},
    {"hipMemsetD2D8Async", FIRST_WORDS(6), AREA_AT(1, 3)},
    {"hipMemsetD2D16Async", FIRST_WORDS(6), AREA_AT(2, 3)},
    {"hipMemsetD2D32Async", FIRST_WORDS(6), AREA_AT(4, 3)},
    {"hipMemcpy3DPeerAsync", FIRST_WORDS(2), POINTED(&box_of_peer, 315)},
    {"hipMemcpyParam2DAsync", FIRST_WORDS(2), POINTED(&rows_2d, 105)},
    /* The next two calls have no test here: they count as large whatever their size (tests/integration/hip). */
    {.name = "hipDrvMemcpy3DAsync"},
    {.name = "hipDrvMemcpy3D"},
    {"hipMemcpyAtoHAsync", FIRST_WORDS(5), SIZE_AT(3)},
    {"hipMemcpyHtoAAsync", FIRST_WORDS(5), SIZE_AT(3)},
    {"hipMemcpyBatchAsync", FIRST_WORDS(9), .bytes = SUM(WORD(3)), .pointers = {NULL, NULL, sizes}},
    {"hipMemcpy3DBatchAsync", FIRST_WORDS(5), .bytes = SUM(WORD(0)), .pointers = {NULL, boxes}},
    {"hipMemPrefetchAsync", FIRST_WORDS(4), SIZE_AT(1)},
    {"hipMemPrefetchAsync_v2", FIRST_WORDS(5), SIZE_AT(1)},
    {"hipMemcpyHtoD", FIRST_WORDS(3), SIZE_AT(2)},
    {"hipMemcpyDtoH", FIRST_WORDS(3), SIZE_AT(2)},
    {"hipMemcpyDtoD", FIRST_WORDS(3), SIZE_AT(2)},
    {"hipMemcpyPeer", FIRST_WORDS(5), SIZE_AT(4)},
    {"hipMemcpyAtoA", FIRST_WORDS(5), SIZE_AT(4)},
    {"hipMemcpyAtoD", FIRST_WORDS(4), SIZE_AT(3)},
    {"hipMemcpyAtoH", FIRST_WORDS(4), SIZE_AT(3)},
    {"hipMemcpyDtoA", FIRST_WORDS(4), SIZE_AT(3)},
    {"hipMemcpyHtoA", FIRST_WORDS(4), SIZE_AT(3)},
    {"hipMemcpyToArray", FIRST_WORDS(6), SIZE_AT(4)},
    {"hipMemcpy2DArrayToArray", FIRST_WORDS(9), AREA_AT(1, 6)},
    {"hipMemcpyParam2D", FIRST_WORDS(1), POINTED(&rows_2d, 105)},
    {"hipDrvMemcpy2DUnaligned", FIRST_WORDS(1), POINTED(&rows_2d, 105)},
    {"hipMemcpy3DPeer", FIRST_WORDS(1), POINTED(&box_of_peer, 315)},
    {"hipMemsetD8", FIRST_WORDS(3), SIZE_AT(2)},
    {"hipMemsetD16", FIRST_WORDS(3), COUNT_AT(2, 2)},
    {"hipMemsetD32", FIRST_WORDS(3), COUNT_AT(4, 2)},
    {"hipMemsetD2D8", FIRST_WORDS(5), AREA_AT(1, 3)},
    {"hipMemsetD2D16", FIRST_WORDS(5), AREA_AT(2, 3)},
    {"hipMemsetD2D32", FIRST_WORDS(5), AREA_AT(4, 3)},
};

/* Fills each entry with 0xA5, then sets its extent: the interposer reads only the extent and the operand types. So
 * entry i moves 1 << i bytes, and its types are not those of an array. */
static int setup(void **state)
{
    memset(boxes, 0xA5, sizeof boxes);
    for (unsigned i = 0; i < WORDS; i++)
        boxes[i].extent = (hipExtent){(size_t)1 << i, 1, 1};
    facet_hip_process_prepare(); /* makes the ledger, in which the hooks look up loaded code */
    atomic_store(&facet_hip_initialized[0], true);
    return 0;
}

static void test_each_transfer_passes_its_arguments_on_and_counts_its_bytes(void **state)
{
#define CHECK(symbol)                                                                                                  \
    check_transfer(#symbol, rows, sizeof rows / sizeof rows[0], (void *)facet_##symbol,                                \
                   (void **)&facet_hip_driver.symbol);
    FACET_HIP_TRANSFER_HOOKS(CHECK)
#undef CHECK
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_transfer_passes_its_arguments_on_and_counts_its_bytes),
    };

    return cmocka_run_group_tests_name("HIP transfers", tests, setup, NULL);
}
