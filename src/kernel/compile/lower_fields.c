/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many work-items in the lanes of vectors: small structs and vectors (float4) of which all fields are accessed.
 *
 * Owns: finding the accesses in a block, and one wide access with shuffles instead of one access for each field.
 * Never: moves an access over another access that may overlap with it.
 */
#include "lower_lanes.h"

#include <string.h>

#define FIELDS_MAX 4

struct fields {
    LLVMValueRef root, members[FIELDS_MAX], first, last;
    int64_t offset; /* of the first field from root */
    uint32_t count;
};

static LLVMValueRef address_of(LLVMValueRef access)
{
    return LLVMGetOperand(access, LLVMIsAStoreInst(access) ? 1 : 0);
}

/* Splits a pointer into a root, which is returned, and a constant offset in bytes, which may be 0. */
static LLVMValueRef root_of(const struct facet_lanes *lanes, LLVMValueRef pointer, int64_t *ret_offset)
{
    *ret_offset = 0;
    if (!LLVMIsAGetElementPtrInst(pointer) || LLVMGetNumOperands(pointer) != 2 ||
        !LLVMIsAConstantInt(LLVMGetOperand(pointer, 1)))
        return pointer;
    *ret_offset = LLVMConstIntGetSExtValue(LLVMGetOperand(pointer, 1)) *
                  (int64_t)LLVMABISizeOfType(lanes->layout, LLVMGetGEPSourceElementType(pointer));
    return LLVMGetOperand(pointer, 0);
}

static bool touches_memory(LLVMValueRef instruction, bool stores)
{
    if (LLVMIsAStoreInst(instruction) || LLVMIsAAtomicRMWInst(instruction) || LLVMIsAAtomicCmpXchgInst(instruction) ||
        LLVMIsAFenceInst(instruction))
        return true;
    if (LLVMIsALoadInst(instruction))
        return stores;
    return LLVMIsACallInst(instruction) && !facet_is_ignored(instruction) &&
           (facet_call_of(instruction) == FACET_CALL_BARRIER ||
            LLVMGetTypeKind(LLVMTypeOf(instruction)) == LLVMVoidTypeKind);
}

/* The index of the field that `at` accesses in the same way as `access` does; FIELDS_MAX: none. */
static uint32_t field_of(const struct facet_lanes *lanes, const struct fields *fields, LLVMValueRef access,
                         LLVMValueRef at)
{
    int64_t size = (int64_t)LLVMStoreSizeOfType(lanes->layout, facet_accessed_type(access)), offset;

    if (LLVMGetInstructionOpcode(at) != LLVMGetInstructionOpcode(access) || LLVMGetVolatile(at) || LLVMIsAtomic(at) ||
        facet_accessed_type(at) != facet_accessed_type(access) ||
        root_of(lanes, address_of(at), &offset) != fields->root)
        return FIELDS_MAX;
    offset -= fields->offset;
    return offset < 0 || offset >= size * (int64_t)fields->count || offset % size ? FIELDS_MAX
                                                                                  : (uint32_t)(offset / size);
}

static void clear_fields(struct fields *fields)
{
    memset(fields->members, 0, sizeof fields->members);
    fields->first = fields->last = NULL;
}

/*
 * Finds the set of accesses that `access` belongs to. A block may access the fields several times. Sets are collected
 * from the block's beginning, and each ends as soon as it is complete, so that all its members find the same set.
 */
static bool find_members(const struct facet_lanes *lanes, struct fields *fields, LLVMValueRef access)
{
    bool has = false, stores = LLVMIsAStoreInst(access) != NULL;
    uint32_t found = 0;

    for (LLVMValueRef at = LLVMGetFirstInstruction(LLVMGetInstructionParent(access)); at;
         at = LLVMGetNextInstruction(at)) {
        bool memory = LLVMIsALoadInst(at) || LLVMIsAStoreInst(at);
        uint32_t field = memory ? field_of(lanes, fields, access, at) : FIELDS_MAX;
        bool ends = found == fields->count ||
                    (field == FIELDS_MAX ? touches_memory(at, stores) : fields->members[field] != NULL);

        if (has && ends)
            break;
        if (ends) {
            clear_fields(fields);
            found = 0;
        }
        if (field == FIELDS_MAX)
            continue;
        fields->members[field] = at;
        fields->first = fields->first ? fields->first : at;
        fields->last = at;
        has = has || at == access;
        found++;
    }
    return has && found == fields->count;
}

static bool find_fields(const struct facet_lanes *lanes, LLVMValueRef access, struct fields *ret_fields)
{
    struct facet_shape shape = facet_shapes_get(&lanes->shapes, address_of(access));
    LLVMTypeRef type = facet_accessed_type(access);
    int64_t size = (int64_t)LLVMStoreSizeOfType(lanes->layout, type), offset;
    struct fields fields = {0};

    if (shape.kind != FACET_SHAPE_STRIDED || lanes->masks[lanes->block] ||
        (shape.stride != 2 * size && shape.stride != 4 * size) ||
        LLVMSizeOfTypeInBits(lanes->layout, type) != (uint64_t)size * 8)
        return false;
    fields.count = (uint32_t)(shape.stride / size);
    fields.root = root_of(lanes, address_of(access), &offset);
    if (offset < 0)
        return false;
    fields.offset = offset / shape.stride * shape.stride;
    if (!find_members(lanes, &fields, access))
        return false;
    *ret_fields = fields;
    return true;
}

static LLVMValueRef base_of(struct facet_lanes *lanes, const struct fields *fields)
{
    LLVMValueRef offset = LLVMConstInt(LLVMInt64TypeInContext(lanes->context), (unsigned long long)fields->offset, 1);

    return LLVMBuildGEP2(lanes->builder, LLVMInt8TypeInContext(lanes->context), facet_lanes_scalar(lanes, fields->root),
                         &offset, 1, "");
}

/* A vector of `count` indices, start + i * step; the indices that interleave `fields` vectors when step is 0. */
static LLVMValueRef index_vector(struct facet_lanes *lanes, uint32_t count, uint32_t start, uint32_t step,
                                 uint32_t fields)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(lanes->context);
    LLVMValueRef *indices = facet_arena_take(lanes->arena, count * sizeof(*indices));

    for (uint32_t i = 0; i < count; i++)
        indices[i] = LLVMConstInt(i32, step ? start + i * step : i % fields * lanes->width + i / fields, 0);
    return LLVMConstVector(indices, count);
}

bool facet_lanes_load_fields(struct facet_lanes *lanes, LLVMValueRef load)
{
    struct fields fields;
    LLVMValueRef all, part;
    LLVMTypeRef wide;

    if (!find_fields(lanes, load, &fields) || fields.first != load)
        return false;
    wide = LLVMVectorType(LLVMTypeOf(load), lanes->width * fields.count);
    all = LLVMBuildLoad2(lanes->builder, wide, base_of(lanes, &fields), "");
    LLVMSetAlignment(all, LLVMGetAlignment(fields.members[0]));
    for (uint32_t i = 0; i < fields.count; i++) {
        part = LLVMBuildShuffleVector(lanes->builder, all, LLVMGetPoison(wide),
                                      index_vector(lanes, lanes->width, i, fields.count, 0), "");
        facet_map_put(&lanes->vectors, fields.members[i], part);
    }
    return true;
}

static LLVMValueRef join_vectors(struct facet_lanes *lanes, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildShuffleVector(lanes->builder, a, b, index_vector(lanes, 2 * lanes->width, 0, 1, 0), "");
}

bool facet_lanes_store_fields(struct facet_lanes *lanes, LLVMValueRef store)
{
    struct fields fields;
    LLVMValueRef values[FIELDS_MAX] = {NULL}, all;

    if (!find_fields(lanes, store, &fields))
        return false;
    if (fields.last != store)
        return true; /* the set's last store stores all */
    for (uint32_t i = 0; i < fields.count; i++)
        values[i] = facet_lanes_vector(lanes, LLVMGetOperand(fields.members[i], 0));
    if (fields.count == 4) {
        values[0] = join_vectors(lanes, values[0], values[1]);
        values[1] = join_vectors(lanes, values[2], values[3]);
    }
    all = LLVMBuildShuffleVector(lanes->builder, values[0], values[1],
                                 index_vector(lanes, lanes->width * fields.count, 0, 0, fields.count), "");
    facet_lanes_store_neighbours(lanes, all, base_of(lanes, &fields), fields.members[0]);
    return true;
}
