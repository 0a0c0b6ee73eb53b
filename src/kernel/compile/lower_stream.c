/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many work-items in the lanes of vectors: stores that bypass the caches.
 *
 * Owns: the test at run time whether a store fills whole lines of the cache, and there are so many such stores that the
 *       caches will not hold their data. Never: changes the stored values.
 *
 * A line that is written as a whole and not read again soon need not be fetched before it is written; that saves a
 * quarter of the traffic of `z[i] = a * x[i] + y[i]`. Only locked instructions and fences order such stores. So a
 * kernel that orders its accesses gets no such stores, and a thread that ran a group takes a lock before it reports the
 * group's end.
 */
#include "lower_lanes.h"

#define LINE_BYTES   64
#define STREAM_BYTES (UINT64_C(16) << 20) /* about half of the last-level cache that today's cores share */

/* Whether the block is inside a loop of the item. */
static bool is_in_loop(const struct facet_graph *graph, uint32_t index)
{
    for (uint32_t latch = index; latch < graph->count; latch++) {
        uint32_t header = facet_graph_header(graph, latch);

        if (header != FACET_NO_BLOCK && header <= index && facet_graph_dominates(graph, header, index))
            return true;
    }
    return false;
}

static bool orders_memory(LLVMValueRef instruction)
{
    switch (LLVMGetInstructionOpcode(instruction)) {
    case LLVMFence:
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg:
        return true;
    case LLVMLoad:
    case LLVMStore:
        return LLVMGetVolatile(instruction) || LLVMGetOrdering(instruction) != LLVMAtomicOrderingNotAtomic;
    default:
        return facet_call_of(instruction) == FACET_CALL_BARRIER;
    }
}

bool facet_lanes_orders_memory(const struct facet_graph *graph)
{
    for (uint32_t i = 0; i < graph->count; i++)
        for (LLVMValueRef at = LLVMGetFirstInstruction(graph->blocks[i].block); at; at = LLVMGetNextInstruction(at))
            if (orders_memory(at))
                return true;
    return false;
}

/* The number of work-items of the launch. */
static LLVMValueRef count_items(struct facet_lanes *lanes)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(lanes->context), i64 = LLVMInt64TypeInContext(lanes->context);
    LLVMTypeRef type = LLVMFunctionType(i32, &i32, 1, 0);
    LLVMValueRef all = LLVMConstInt(i64, 1, 0),
                 callee = facet_function_declare(lanes->module, "__facet_global_size", type);

    for (uint32_t d = 0; d < 3; d++) {
        LLVMValueRef dimension = LLVMConstInt(i32, d, 0);
        LLVMValueRef size = LLVMBuildCall2(lanes->builder, type, callee, &dimension, 1, "");

        all = LLVMBuildMul(lanes->builder, all, LLVMBuildZExt(lanes->builder, size, i64, ""), "");
    }
    return all;
}

LLVMValueRef facet_lanes_stream(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef address,
                                LLVMValueRef original)
{
    LLVMBuilderRef builder = lanes->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(lanes->context);
    LLVMValueRef pointer = LLVMGetOperand(original, 1), many, place, aligned;
    uint64_t bytes = LLVMStoreSizeOfType(lanes->layout, LLVMTypeOf(value));

    if (bytes % LINE_BYTES || lanes->orders_memory || facet_private_of(pointer) || facet_is_local_memory(pointer) ||
        is_in_loop(&lanes->graph, lanes->block))
        return NULL;
    many = LLVMBuildICmp(builder, LLVMIntUGE, count_items(lanes),
                         LLVMConstInt(i64, STREAM_BYTES * lanes->width / bytes, 0), "");
    place =
        LLVMBuildAnd(builder, LLVMBuildPtrToInt(builder, address, i64, ""), LLVMConstInt(i64, LINE_BYTES - 1, 0), "");
    aligned = LLVMBuildICmp(builder, LLVMIntEQ, place, LLVMConstInt(i64, 0, 0), "");
    return LLVMBuildAnd(builder, many, aligned, "");
}

void facet_lanes_store_bypassing(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef address)
{
    LLVMValueRef one = LLVMConstInt(LLVMInt32TypeInContext(lanes->context), 1, 0);
    LLVMMetadataRef number = LLVMValueAsMetadata(one);
    LLVMValueRef store = LLVMBuildStore(lanes->builder, value, address);

    LLVMSetAlignment(store, LINE_BYTES);
    LLVMSetMetadata(store, LLVMGetMDKindIDInContext(lanes->context, "nontemporal", 11),
                    LLVMMetadataAsValue(lanes->context, LLVMMDNodeInContext2(lanes->context, &number, 1)));
}
