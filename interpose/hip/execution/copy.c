/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies of rows, boxes, arrays and symbols, batches of copies, and moving managed memory, in stream order.
 * Never: sizes an operation whose form it does not know, or a batch that lacks an array. Both count as size 0 and go
 * straight to the runtime, which refuses an invalid operation.
 */
#include "transfer.h"

#include "interpose/hip/initialize.h"
#include "interpose/hip/memory/code.h"
#include "interpose/kit/execution/capture.h"

#define TRANSFER  FACET_HIP_TRANSFER
#define TRANSFERS FACET_HIP_TRANSFERS

/* `has_arrays`: whether the required arrays other than `sizes` are present. */
static uint64_t sum_of_sizes(bool has_arrays, const size_t *sizes, size_t count)
{
    return has_arrays ? facet_flight_batch(sizes, count, facet_flight_size_at) : 0;
}

static bool has_array(const hipMemcpy3DBatchOp *operation)
{
    return operation->src.type == hipMemcpyOperandTypeArray || operation->dst.type == hipMemcpyOperandTypeArray;
}

static uint64_t box_bytes_at(const void *list, size_t index)
{
    const hipMemcpy3DBatchOp *operation = &((const hipMemcpy3DBatchOp *)list)[index];

    return facet_hip_transfer_box(operation->extent, has_array(operation));
}

static uint64_t sum_boxes(const hipMemcpy3DBatchOp *list, size_t count)
{
    return facet_flight_batch(list, count, box_bytes_at);
}

TRANSFERS(hipMemcpy2DAsync, (VENDOR_HIP_ROWS, hipStream_t stream), facet_hip_transfer_times(width, height), to,
          to_pitch, from, from_pitch, width, height, kind, stream)
TRANSFERS(hipMemcpy2DToArrayAsync, (VENDOR_HIP_ROWS_TO_ARRAY, hipStream_t stream),
          facet_hip_transfer_times(width, height), to, x, y, from, from_pitch, width, height, kind, stream)
TRANSFERS(hipMemcpy2DFromArrayAsync, (VENDOR_HIP_ROWS_FROM_ARRAY, hipStream_t stream),
          facet_hip_transfer_times(width, height), to, to_pitch, from, x, y, width, height, kind, stream)
TRANSFERS(hipMemcpy3DAsync, (const hipMemcpy3DParms *copy, hipStream_t stream), facet_hip_transfer_copy(copy), copy,
          stream)
TRANSFER(hipMemcpy3DPeerAsync, (hipMemcpy3DPeerParms * copy, hipStream_t stream), false,
         facet_hip_transfer_peer_copy(copy), copy, stream)
TRANSFER(hipMemcpyParam2DAsync, (const hip_Memcpy2D *copy, hipStream_t stream), false, facet_hip_transfer_rows(copy),
         copy, stream)
TRANSFER(hipDrvMemcpy3DAsync, (const HIP_MEMCPY3D *copy, hipStream_t stream), false, facet_hip_transfer_unknown(copy),
         copy, stream)
TRANSFER(hipMemcpyAtoHAsync, (void *to, hipArray_t from, size_t offset, size_t size, hipStream_t stream), false, size,
         to, from, offset, size, stream)
TRANSFER(hipMemcpyHtoAAsync, (hipArray_t to, size_t offset, const void *from, size_t size, hipStream_t stream), false,
         size, to, offset, from, size, stream)

/* ---- batches ---- */

TRANSFER(hipMemcpyBatchAsync,
         (void **to, void **from, size_t *sizes, size_t count, hipMemcpyAttributes *attributes, size_t *indices,
          size_t attribute_count, size_t *failed_index, hipStream_t stream),
         false, sum_of_sizes(to &&from, sizes, count), to, from, sizes, count, attributes, indices, attribute_count,
         failed_index, stream)
TRANSFER(hipMemcpy3DBatchAsync,
         (size_t count, hipMemcpy3DBatchOp *list, size_t *failed_index, unsigned long long flags, hipStream_t stream),
         false, sum_boxes(list, count), count, list, failed_index, flags, stream)

/* ---- managed memory: charged in full on each GPU, so moving it only takes time ---- */

TRANSFER(hipMemPrefetchAsync, (const void *pointer, size_t size, int device, hipStream_t stream), false, size, pointer,
         size, device, stream)
TRANSFER(hipMemPrefetchAsync_v2,
         (const void *pointer, size_t size, hipMemLocation location, unsigned flags, hipStream_t stream), false, size,
         pointer, size, location, flags, stream)

/* ---- symbols: the first use of a symbol loads its code object ---- */

static bool symbol_loads(const void *symbol, hipStream_t stream)
{
    return !atomic_load_explicit(&facet_flight_captures, memory_order_relaxed) &&
           facet_hip_code_launch_begin(symbol, stream);
}

#define SYMBOL_BODY(name, per_thread, ...)                                                                             \
    {                                                                                                                  \
        hipError_t initialized = facet_hip_initialize_device(facet_hip_stream_device(stream));                         \
                                                                                                                       \
        if (initialized != hipSuccess)                                                                                 \
            return initialized;                                                                                        \
        FACET_HIP_TRANSFER_BODY(name, per_thread, size,                                                                \
                                symbol_loads(symbol, stream)                                                           \
                                    ? facet_hip_code_launch_end(facet_hip_driver.name(__VA_ARGS__))                    \
                                    : facet_hip_driver.name(__VA_ARGS__));                                             \
    }
#define SYMBOL(name, parameters, per_thread, ...)                                                                      \
    hipError_t facet_##name parameters SYMBOL_BODY(name, per_thread, __VA_ARGS__)
#define SYMBOLS(name, parameters, ...)                                                                                 \
    SYMBOL(name, parameters, false, __VA_ARGS__)                                                                       \
    SYMBOL(name##_spt, parameters, true, __VA_ARGS__)

SYMBOLS(hipMemcpyToSymbolAsync, (VENDOR_HIP_TO_SYMBOL, hipStream_t stream), symbol, from, size, offset, kind, stream)
SYMBOLS(hipMemcpyFromSymbolAsync, (VENDOR_HIP_FROM_SYMBOL, hipStream_t stream), to, symbol, size, offset, kind, stream)

static const hipStream_t stream = NULL; /* the stream of calls without a stream argument */

SYMBOLS(hipMemcpyToSymbol, (VENDOR_HIP_TO_SYMBOL), symbol, from, size, offset, kind)

#define FROM_SYMBOL(name, per_thread)                                                                                  \
    static hipError_t copy_##name(VENDOR_HIP_FROM_SYMBOL)                                                              \
        SYMBOL_BODY(name, per_thread, to, symbol, size, offset, kind)                                                  \
            FACET_HIP_TO_HOST(name, (VENDOR_HIP_FROM_SYMBOL), per_thread, facet_hip_transfer_direction(kind), to,      \
                              symbol, size, offset, kind)
FROM_SYMBOL(hipMemcpyFromSymbol, false)
FROM_SYMBOL(hipMemcpyFromSymbol_spt, true)
