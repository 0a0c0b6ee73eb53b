/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: pools: how much each holds of a device, and how much of that is in use.
 * Never: keeps two allocations apart within a pool: a pool is two numbers, and each allocation has addresses of its
 * own.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"

struct CUmemPoolHandle_st {
    struct CUmemPoolHandle_st *next;
    CUdevice device;
    uint32_t physical;
    CUmemPoolProps properties;
    bool on_host, imported, destroyed;
    uint64_t reserved, reserved_high, used, used_high, threshold, id;
    uint32_t allocation_count;
    int reuse[3];
    struct fake_export *exports;
};

static CUmemoryPool all_pools; /* destroyed pools, too, so that their handles are recognised */
static CUmemoryPool default_pools[FAKE_DEVICES], current_pools[FAKE_DEVICES];
static CUmemoryPool managed_pools[FAKE_DEVICES], host_pool; /* cuMemGetDefaultMemPool's answers for other locations */

static CUmemoryPool make_pool(CUdevice device, uint32_t physical)
{
    static uint64_t ids;
    CUmemoryPool pool = calloc(1, sizeof *pool);

    if (!pool)
        return NULL;
    pool->device = device;
    pool->physical = physical;
    pool->properties = (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
    pool->id = ++ids;
    pool->next = all_pools;
    all_pools = pool;
    return pool;
}

static bool is_pool(CUmemoryPool pool)
{
    CUmemoryPool at = all_pools;

    while (at && at != pool)
        at = at->next;
    return at && !at->destroyed;
}

static CUmemoryPool default_pool_of(CUdevice device, uint32_t physical)
{
    if (!default_pools[physical])
        default_pools[physical] = make_pool(device, physical);
    return default_pools[physical];
}

static CUmemoryPool current_pool_of(CUdevice device, uint32_t physical)
{
    return current_pools[physical] ? current_pools[physical] : default_pool_of(device, physical);
}

/* NULL: such a location has no default pool, or memory is out. */
static CUmemoryPool default_pool_of_location(const CUmemLocation *location, CUmemAllocationType type, uint32_t physical)
{
    bool is_managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED, on_device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool *place = on_device ? &managed_pools[physical] : &host_pool;

    if (on_device && !is_managed)
        return default_pool_of(location->id, physical);
    if (!on_device && (is_managed || location->type != CU_MEM_LOCATION_TYPE_HOST))
        return NULL;
    if (!*place && (*place = make_pool(on_device ? location->id : 0, physical))) {
        (*place)->properties.allocType = type;
        (*place)->properties.location = *location;
        (*place)->on_host = !on_device;
    }
    return *place;
}

static bool grow_pool(CUmemoryPool pool, uint64_t bytes)
{
    if (pool->properties.maxSize && pool->reserved + bytes > fake_round_up(pool->properties.maxSize, FAKE_PAGE))
        return false;
    /* Not fake_memory_reserve(), which trims pools: this pool is about to use its memory. */
    if (!pool->on_host && !fake_device_reserve(pool->physical, FAKE_POOL, bytes))
        return false;
    pool->reserved += bytes;
    pool->reserved_high = pool->reserved > pool->reserved_high ? pool->reserved : pool->reserved_high;
    return true;
}

static bool trim_pool(CUmemoryPool pool, uint64_t keep)
{
    uint64_t least = fake_round_up(pool->used > keep ? pool->used : keep, FAKE_PAGE);

    if (pool->reserved <= least || (pool->destroyed && fake_shared_is_open(&pool->exports)))
        return false;
    if (!pool->on_host)
        fake_device_release(pool->physical, FAKE_POOL, pool->reserved - least);
    pool->reserved = least;
    return true;
}

bool fake_pools_trim(uint32_t physical)
{
    bool any = false;

    for (CUmemoryPool pool = all_pools; pool; pool = pool->next)
        if (pool->physical == physical && !pool->on_host)
            any |= trim_pool(pool, 0);
    return any;
}

void fake_pools_synchronized(void)
{
    fake_memory_lock();
    for (CUmemoryPool pool = all_pools; pool; pool = pool->next)
        trim_pool(pool, pool->threshold);
    fake_memory_unlock();
}

static bool reserve_for_block(CUmemoryPool pool, uint64_t bytes)
{
    uint64_t unused = pool->reserved - pool->used;
    uint64_t missing = bytes > unused ? bytes - unused : 0;

    if (!missing || grow_pool(pool, fake_round_up(missing, FAKE_POOL_STEP)) ||
        grow_pool(pool, fake_round_up(missing, FAKE_PAGE)))
        return true;
    pool->used += unused; /* keeps this pool's memory while the others are trimmed */
    bool freed = fake_pools_trim(pool->physical);
    pool->used -= unused;
    return freed && grow_pool(pool, fake_round_up(missing, FAKE_PAGE));
}

static struct fake_block *allocate_block(CUmemoryPool pool, uint64_t bytes)
{
    uint64_t granted = fake_round_up(bytes, FAKE_SMALL_STEP);
    struct fake_block *block = reserve_for_block(pool, granted) ? fake_block_make(FAKE_BLOCK_POOLED, bytes) : NULL;
    CUmemoryPool *detail = malloc(sizeof *detail);

    if (!block || !detail) {
        free(detail);
        return NULL;
    }
    *detail = pool;
    block->type_data = detail;
    block->physical = pool->physical;
    pool->used += granted;
    pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
    pool->allocation_count++;
    return block;
}

CUmemoryPool fake_pool_of(const struct fake_block *block)
{
    return *(CUmemoryPool *)block->type_data;
}

void fake_pool_free(struct fake_block *block)
{
    CUmemoryPool pool = fake_pool_of(block);

    pool->used -= fake_round_up(block->bytes, FAKE_SMALL_STEP);
    pool->allocation_count--;
    fake_block_free(block);
    if (pool->destroyed)
        trim_pool(pool, 0);
}

static CUresult allocate_from_pool(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool)
{
    fake_memory_lock();
    bool usable = is_pool(pool) && !pool->imported;
    struct fake_block *block = usable ? allocate_block(pool, bytes) : NULL;
    fake_memory_unlock();
    if (!usable)
        return CUDA_ERROR_INVALID_VALUE;
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = block->address;
    return CUDA_SUCCESS;
}

/* Adds a node to the captured graph; its memory comes from the device's graph memory, not from a pool. */
static CUresult capture_allocation(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    uint64_t address;
    struct fake_allocation *allocation = fake_allocation_make(stream->context->physical, bytes, &address);

    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = fake_submit(stream, (struct fake_work){.allocates = allocation});
    if (result == CUDA_SUCCESS)
        *pointer = address;
    fake_allocation_unreference(allocation); /* the graph holds it now */
    return result;
}

/* `pool`: NULL means the current pool of the stream's device. */
static CUresult allocate_in_stream(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream handle,
                                   bool per_thread)
{
    CUcontext context;
    CUstream stream;
    CUresult result = pointer && bytes ? fake_enter(&context) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        result = fake_stream(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (atomic_load(&stream->captured))
        return capture_allocation(pointer, bytes, stream);
    fake_memory_lock();
    if (!pool)
        pool = current_pool_of(stream->context->device, stream->context->physical);
    fake_memory_unlock();
    return pool ? allocate_from_pool(pointer, bytes, pool) : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult do_cuMemAllocFromPoolAsync(bool per_thread, CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                           CUstream stream)
{
    return pool ? allocate_in_stream(pointer, bytes, pool, stream, per_thread) : CUDA_ERROR_INVALID_VALUE;
}
FAKE_BOTH_FORMS(cuMemAllocFromPoolAsync, (CUdeviceptr * pointer, size_t bytes, CUmemoryPool pool, CUstream stream),
                pointer, bytes, pool, stream)

static CUresult do_cuMemAllocAsync(bool per_thread, CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    return allocate_in_stream(pointer, bytes, NULL, stream, per_thread);
}
FAKE_BOTH_FORMS(cuMemAllocAsync, (CUdeviceptr * pointer, size_t bytes, CUstream stream), pointer, bytes, stream)

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    uint32_t physical = 0;
    CUresult result = fake_ready();

    if (result == CUDA_SUCCESS && (!pool || !properties || properties->allocType < CU_MEM_ALLOCATION_TYPE_PINNED ||
                                   properties->allocType > CU_MEM_ALLOCATION_TYPE_MANAGED))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    CUcontext context;
    bool has_no_location = properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED &&
                           properties->location.type == CU_MEM_LOCATION_TYPE_INVALID;
    bool on_host = !has_no_location && properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    if (has_no_location && fake_enter(&context) == CUDA_SUCCESS)
        physical = context->physical;
    if (!has_no_location && !on_host && fake_physical(properties->location.id, &physical) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    fake_memory_lock();
    CUmemoryPool pool_made = make_pool(on_host || has_no_location ? 0 : properties->location.id, physical);
    if (pool_made) {
        pool_made->properties = *properties;
        pool_made->on_host = on_host;
        *pool = pool_made;
    }
    fake_memory_unlock();
    return pool_made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The pool's allocations stay until they are freed. A device whose current pool it was uses its default pool again. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    fake_memory_lock();
    if (is_pool(pool) && default_pools[pool->physical] != pool) {
        pool->destroyed = true;
        if (current_pools[pool->physical] == pool)
            current_pools[pool->physical] = NULL;
        trim_pool(pool, 0);
        result = CUDA_SUCCESS;
    }
    fake_memory_unlock();
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    fake_memory_lock();
    bool known = is_pool(pool);
    if (known)
        trim_pool(pool, keep);
    fake_memory_unlock();
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static uint64_t *attribute_number(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high;
    default:
        return NULL;
    }
}

static CUresult get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
        attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        memcpy(value, &pool->reuse[attribute - 1], sizeof pool->reuse[0]);
    else if (attribute_number(pool, attribute))
        memcpy(value, attribute_number(pool, attribute), sizeof(uint64_t));
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* The amounts in use cannot be set; high-water marks can be reset to 0. */
static CUresult set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, const void *value)
{
    uint64_t number;

    if (attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
        attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
        memcpy(&pool->reuse[attribute - 1], value, sizeof pool->reuse[0]);
        return CUDA_SUCCESS;
    }
    memcpy(&number, value, sizeof number);
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = number;
    else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && !number)
        pool->reserved_high = pool->reserved;
    else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && !number)
        pool->used_high = pool->used;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    fake_memory_lock();
    CUresult result = value && is_pool(pool) ? get_attribute(pool, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    fake_memory_unlock();
    return result;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    fake_memory_lock();
    CUresult result = value && is_pool(pool) ? set_attribute(pool, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    fake_memory_unlock();
    return result;
}

/* ---- for other processes ---- */

CUresult cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool, CUmemAllocationHandleType type,
                                          unsigned long long flags)
{
    int fd = -1;

    if (!handle || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    fake_memory_lock();
    if (is_pool(pool) && !pool->on_host && pool->properties.handleTypes & type)
        fd = fake_shared_export(&(struct fake_shared){.magic = FAKE_SHARED_MAGIC,
                                                      .pid = getpid(),
                                                      .physical = pool->physical,
                                                      .type = FAKE_SHARED_POOL,
                                                      .id = pool->id},
                                &pool->exports);
    fake_memory_unlock();
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(handle, &fd, sizeof fd);
    return CUDA_SUCCESS;
}

/* An imported pool allocates nothing: it is used to import pointers. */
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    struct fake_shared shared;

    if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !fake_shared_read((int)(intptr_t)handle, FAKE_SHARED_POOL, &shared))
        return CUDA_ERROR_INVALID_VALUE;
    fake_memory_lock();
    CUmemoryPool pool_made = make_pool(0, shared.physical);
    if (pool_made) {
        pool_made->imported = true;
        *pool = pool_made;
    }
    fake_memory_unlock();
    return pool_made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

_Static_assert(sizeof(struct fake_shared) <= sizeof(CUmemPoolPtrExportData), "exported data has room for it");

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer)
{
    fake_memory_lock();
    struct fake_block *block = fake_block_at(pointer);
    bool found = data && block && block->type == FAKE_BLOCK_POOLED && block->address == pointer;
    if (found) {
        struct fake_shared shared = {.magic = FAKE_SHARED_MAGIC,
                                     .pid = getpid(),
                                     .fd = fake_backing(),
                                     .offset = fake_backing_offset(block),
                                     .bytes = block->bytes,
                                     .physical = block->physical,
                                     .type = FAKE_SHARED_POOLED,
                                     .id = block->id};
        memset(data, 0, sizeof *data);
        memcpy(data, &shared, sizeof shared);
    }
    fake_memory_unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    struct fake_shared shared = {0};

    if (pointer && data)
        memcpy(&shared, data, sizeof shared);
    if (shared.magic != FAKE_SHARED_MAGIC || shared.type != FAKE_SHARED_POOLED)
        return CUDA_ERROR_INVALID_VALUE;
    fake_memory_lock();
    CUresult result =
        is_pool(pool) && pool->imported ? fake_shared_map(&shared, NULL, pointer) : CUDA_ERROR_INVALID_VALUE;
    fake_memory_unlock();
    return result;
}

/* ---- the pools of a device, and of a location ---- */

static CUresult pool_of_device(CUmemoryPool *pool, CUdevice device, CUmemoryPool (*find_pool)(CUdevice, uint32_t))
{
    uint32_t physical;
    CUresult result = pool ? fake_physical(device, &physical) : CUDA_ERROR_INVALID_VALUE;

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    CUmemoryPool found = find_pool(device, physical);
    fake_memory_unlock();
    if (found)
        *pool = found;
    return found ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    return pool_of_device(pool, device, default_pool_of);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    return pool_of_device(pool, device, current_pool_of);
}

/* Only a device's pool can be set. */
static CUresult pool_of_location(CUmemoryPool *pool, const CUmemLocation *location, CUmemAllocationType type,
                                 bool current)
{
    uint32_t physical = 0;
    bool on_device = location && location->type == CU_MEM_LOCATION_TYPE_DEVICE;

    if (!pool || !location || (on_device && fake_physical(location->id, &physical) != CUDA_SUCCESS))
        return CUDA_ERROR_INVALID_VALUE;
    fake_memory_lock();
    CUmemoryPool found = current && on_device && type == CU_MEM_ALLOCATION_TYPE_PINNED
                             ? current_pool_of(location->id, physical)
                             : default_pool_of_location(location, type, physical);
    fake_memory_unlock();
    if (found)
        *pool = found;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    return pool_of_location(pool, location, type, false);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    return pool_of_location(pool, location, type, true);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    uint32_t physical;
    CUresult result = fake_physical(device, &physical);

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    bool usable = is_pool(pool) && !pool->on_host && !pool->imported && pool->physical == physical;
    if (usable)
        current_pools[physical] = pool;
    fake_memory_unlock();
    return usable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
