/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reserved addresses, physical memory, and mappings.
 * Never: frees memory while it has a handle, a mapping, or an exported descriptor.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"

#define HANDLES 65536u

struct physical {
    uint64_t offset, bytes, id;
    uint32_t device, handles, mappings, index;
    int fd; /* of memory imported from another process; -1: our own, which is charged */
    bool on_host;
    CUmemAllocationProp properties;
    struct fake_export *exports;
};

struct mapping {
    struct mapping *next;
    uint64_t address, bytes, offset;
    struct physical *memory;
    int access;
    uint64_t used_until_ns; /* by work on the device */
};

/* The type_data of a block of reserved addresses. */
struct reserved {
    struct mapping *first;
};

static struct physical *physicals[HANDLES]; /* indexed by handle - 1 */
static uint32_t next_free, physical_end;    /* physical_end: no entry from there on was ever used */

static struct physical *physical_by_handle(CUmemGenericAllocationHandle handle)
{
    struct physical *memory = handle && handle <= HANDLES ? physicals[handle - 1] : NULL;

    return memory && memory->handles ? memory : NULL;
}

static struct physical *add_physical(void)
{
    static uint64_t ids;

    for (uint32_t i = 0; i < HANDLES; i++, next_free = (next_free + 1) % HANDLES) {
        if (physicals[next_free])
            continue;
        struct physical *memory = calloc(1, sizeof *memory);
        if (memory)
            *memory = (struct physical){.handles = 1, .index = next_free, .fd = -1, .id = ++ids};
        physical_end = next_free >= physical_end ? next_free + 1 : physical_end;
        return physicals[next_free] = memory;
    }
    return NULL;
}

static void remove_physical(struct physical *memory)
{
    physicals[memory->index] = NULL;
    free(memory);
}

static void free_if_unused(struct physical *memory)
{
    if (memory->handles || memory->mappings || fake_shared_is_open(&memory->exports))
        return;
    if (memory->fd >= 0)
        close(memory->fd);
    else
        fake_backing_free(memory->offset, memory->bytes);
    if (memory->fd < 0 && !memory->on_host)
        fake_device_release(memory->device, FAKE_VIRTUAL, memory->bytes);
    remove_physical(memory);
}

void fake_virtual_free_unused(void)
{
    for (uint32_t i = 0; i < physical_end; i++)
        if (physicals[i] && physicals[i]->exports)
            free_if_unused(physicals[i]);
}

static bool is_page_multiple(uint64_t bytes)
{
    return bytes && bytes % FAKE_PAGE == 0;
}

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr wanted_address,
                             unsigned long long flags)
{
    struct fake_block *block = NULL;
    CUresult result = fake_ready();

    (void)wanted_address; /* a hint */
    if (result == CUDA_SUCCESS && (!pointer || !is_page_multiple(bytes) || flags || alignment > FAKE_PAGE))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    struct reserved *reserved = calloc(1, sizeof *reserved);
    block = reserved ? fake_block_make(FAKE_BLOCK_RESERVED, bytes) : NULL;
    if (block) {
        block->type_data = reserved;
        *pointer = block->address;
    } else {
        free(reserved);
    }
    fake_memory_unlock();
    return block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes)
{
    CUresult result = fake_ready();

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    struct fake_block *block = fake_block_at(pointer);
    bool freed = block && block->type == FAKE_BLOCK_RESERVED && block->address == pointer && block->bytes == bytes &&
                 !((struct reserved *)block->type_data)->first;
    if (freed)
        fake_block_free(block);
    fake_memory_unlock();
    return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Checks the properties, and returns the location that they ask for. */
static CUresult check_properties(const CUmemAllocationProp *properties, uint32_t *ret_device, bool *ret_on_host)
{
    if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type < CU_MEM_LOCATION_TYPE_DEVICE ||
        properties->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_device = 0;
    *ret_on_host = properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    return *ret_on_host ? CUDA_SUCCESS : fake_physical(properties->location.id, ret_device);
}

static CUresult create_physical(CUmemGenericAllocationHandle *handle, const struct physical *request)
{
    struct physical *memory = add_physical();

    if (!memory || !fake_backing_allocate(request->bytes, &memory->offset)) {
        if (memory)
            remove_physical(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!request->on_host && !fake_memory_reserve(request->device, FAKE_VIRTUAL, request->bytes)) {
        fake_backing_free(memory->offset, request->bytes);
        remove_physical(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory->bytes = request->bytes;
    memory->device = request->device;
    memory->on_host = request->on_host;
    memory->properties = request->properties;
    *handle = memory->index + 1;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long flags)
{
    struct physical request = {.bytes = bytes};
    CUresult result = fake_ready();

    if (result == CUDA_SUCCESS && (!handle || !is_page_multiple(bytes) || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = check_properties(properties, &request.device, &request.on_host);
    if (result != CUDA_SUCCESS)
        return result;
    request.properties = *properties;
    fake_memory_lock();
    fake_virtual_free_unused();
    result = create_physical(handle, &request);
    fake_memory_unlock();
    return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    fake_memory_lock();
    struct physical *memory = physical_by_handle(handle);
    if (memory) {
        memory->handles--;
        free_if_unused(memory);
    }
    fake_memory_unlock();
    return memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct mapping *mapping_at(const struct fake_block *block, uint64_t address)
{
    struct mapping *at = ((struct reserved *)block->type_data)->first;

    while (at && address - at->address >= at->bytes)
        at = at->next;
    return at;
}

bool fake_virtual_range(const struct fake_block *block, uint64_t address, uint64_t *ret_base, uint64_t *ret_bytes)
{
    const struct mapping *mapping = mapping_at(block, address);

    if (!mapping)
        return false;
    *ret_base = mapping->address;
    *ret_bytes = mapping->bytes;
    return true;
}

static uint64_t overlap_bytes(const struct mapping *mapping, uint64_t address, uint64_t bytes)
{
    uint64_t first = mapping->address > address ? mapping->address : address;
    uint64_t end = mapping->address + mapping->bytes, wanted = address + bytes;

    end = end < wanted ? end : wanted;
    return end > first ? end - first : 0;
}

bool fake_virtual_usable(const struct fake_block *block, uint64_t address, uint64_t bytes)
{
    uint64_t found = 0;

    for (const struct mapping *at = ((struct reserved *)block->type_data)->first; at; at = at->next)
        found += at->access != CU_MEM_ACCESS_FLAGS_PROT_NONE ? overlap_bytes(at, address, bytes) : 0;
    return found == bytes;
}

void fake_virtual_set_used_until(uint64_t address, uint64_t bytes, uint64_t until_ns)
{
    fake_memory_lock();
    struct fake_block *block = fake_block_at(address);
    bool reserved = block && block->type == FAKE_BLOCK_RESERVED;
    for (struct mapping *at = reserved ? ((struct reserved *)block->type_data)->first : NULL; at; at = at->next)
        if (overlap_bytes(at, address, bytes) && at->used_until_ns < until_ns)
            at->used_until_ns = until_ns;
    fake_memory_unlock();
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    fake_memory_lock();
    struct fake_block *block = fake_block_at((uintptr_t)address);
    struct mapping *mapping =
        handle && block && block->type == FAKE_BLOCK_RESERVED ? mapping_at(block, (uintptr_t)address) : NULL;
    if (mapping) {
        mapping->memory->handles++;
        *handle = mapping->memory->index + 1;
    }
    fake_memory_unlock();
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void *hold_physical(struct physical *memory)
{
    if (memory)
        memory->mappings++;
    return memory;
}

void *fake_virtual_reference(CUmemGenericAllocationHandle handle)
{
    return hold_physical(physical_by_handle(handle));
}

void *fake_virtual_reference_at(uint64_t address)
{
    struct fake_block *block = fake_block_at(address);
    struct mapping *mapping = block && block->type == FAKE_BLOCK_RESERVED ? mapping_at(block, address) : NULL;

    return hold_physical(mapping ? mapping->memory : NULL);
}

void fake_virtual_unreference(void *memory)
{
    ((struct physical *)memory)->mappings--;
    free_if_unused(memory);
}

uint32_t fake_virtual_device(const void *memory)
{
    return ((const struct physical *)memory)->device;
}

/* The reserved block that contains the whole range, or NULL. */
static struct fake_block *reserved_block(uint64_t address, uint64_t bytes)
{
    struct fake_block *block = fake_block_at(address);

    if (!block || block->type != FAKE_BLOCK_RESERVED || !is_page_multiple(bytes) || address % FAKE_PAGE ||
        bytes > block->address + block->bytes - address)
        return NULL;
    return block;
}

static bool overlaps_mapping(const struct fake_block *block, uint64_t address, uint64_t bytes)
{
    for (const struct mapping *at = ((struct reserved *)block->type_data)->first; at; at = at->next)
        if (at->address < address + bytes && address < at->address + at->bytes)
            return true;
    return false;
}

static CUresult map_range(uint64_t address, uint64_t bytes, uint64_t offset, CUmemGenericAllocationHandle handle)
{
    struct fake_block *block = reserved_block(address, bytes);
    struct physical *memory = physical_by_handle(handle);

    if (!block || !memory || offset > memory->bytes || bytes > memory->bytes - offset || offset % FAKE_PAGE)
        return CUDA_ERROR_INVALID_VALUE;
    if (overlaps_mapping(block, address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct mapping *mapping = malloc(sizeof *mapping);
    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct reserved *reserved = block->type_data;
    *mapping = (struct mapping){
        .next = reserved->first, .address = address, .bytes = bytes, .offset = offset, .memory = memory};
    reserved->first = mapping;
    memory->mappings++;
    return CUDA_SUCCESS;
}

/* The range stays inaccessible until cuMemSetAccess. */
CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    CUresult result = flags ? CUDA_ERROR_INVALID_VALUE : fake_ready();

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    result = map_range(pointer, bytes, offset, handle);
    fake_memory_unlock();
    return result;
}

static bool is_inside(const struct mapping *mapping, uint64_t address, uint64_t bytes)
{
    return mapping->address >= address && mapping->address + mapping->bytes <= address + bytes;
}

/* Whether whole mappings fill the range without a gap. */
static bool covers_range(const struct fake_block *block, uint64_t address, uint64_t bytes)
{
    uint64_t covered = 0;

    for (const struct mapping *at = ((struct reserved *)block->type_data)->first; at; at = at->next)
        covered += is_inside(at, address, bytes) ? at->bytes : 0;
    return covered == bytes;
}

static void unmap_range(struct fake_block *block, uint64_t address, uint64_t bytes)
{
    struct mapping **at = &((struct reserved *)block->type_data)->first;

    while (*at) {
        struct mapping *mapping = *at;

        if (!is_inside(mapping, address, bytes)) {
            at = &mapping->next;
            continue;
        }
        *at = mapping->next;
        if (mapping->used_until_ns > fake_now_ns())
            fake_fault();
        mapping->memory->mappings--;
        free_if_unused(mapping->memory);
        free(mapping);
    }
    fake_unmap(address, bytes);
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
    fake_memory_lock();
    struct fake_block *block = reserved_block(pointer, bytes);
    bool unmapped = block && covers_range(block, pointer, bytes);
    if (unmapped)
        unmap_range(block, pointer, bytes);
    fake_memory_unlock();
    return unmapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool set_access(struct mapping *mapping, int flags)
{
    struct physical *memory = mapping->memory;

    mapping->access = flags;
    return fake_map(mapping->address, mapping->bytes, memory->fd >= 0 ? memory->fd : fake_backing(),
                    memory->offset + mapping->offset,
                    flags == CU_MEM_ACCESS_FLAGS_PROT_NONE   ? PROT_NONE
                    : flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ
                                                             : PROT_READ | PROT_WRITE);
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *list, size_t count)
{
    fake_memory_lock();
    struct fake_block *block = list && count ? reserved_block(pointer, bytes) : NULL;
    bool done = block && covers_range(block, pointer, bytes);
    for (struct mapping *at = done ? ((struct reserved *)block->type_data)->first : NULL; at; at = at->next)
        done = done && (!is_inside(at, pointer, bytes) || set_access(at, list[count - 1].flags));
    fake_memory_unlock();
    return done ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr pointer)
{
    fake_memory_lock();
    struct fake_block *block = flags && location ? fake_block_at(pointer) : NULL;
    struct mapping *mapping = block && block->type == FAKE_BLOCK_RESERVED ? mapping_at(block, pointer) : NULL;
    if (mapping)
        *flags = (unsigned)mapping->access;
    fake_memory_unlock();
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option)
{
    uint32_t device;
    bool on_host;

    if (!bytes || option < CU_MEM_ALLOC_GRANULARITY_MINIMUM || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = check_properties(properties, &device, &on_host);
    if (result == CUDA_SUCCESS)
        *bytes = FAKE_PAGE;
    return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)
{
    fake_memory_lock();
    struct physical *memory = properties ? physical_by_handle(handle) : NULL;
    if (memory)
        *properties = memory->properties;
    fake_memory_unlock();
    return memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- between processes: a descriptor that says where the memory is, and keeps it allocated ---- */

CUresult cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    int fd = -1;

    if (!shared || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    fake_memory_lock();
    struct physical *memory = physical_by_handle(handle);
    if (memory && memory->fd < 0 && memory->properties.requestedHandleTypes & type)
        fd = fake_shared_export(&(struct fake_shared){.magic = FAKE_SHARED_MAGIC,
                                                      .pid = getpid(),
                                                      .fd = fake_backing(),
                                                      .offset = memory->offset,
                                                      .bytes = memory->bytes,
                                                      .physical = memory->device,
                                                      .type = FAKE_SHARED_VIRTUAL,
                                                      .id = memory->id},
                                &memory->exports);
    fake_memory_unlock();
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(shared, &fd, sizeof fd);
    return CUDA_SUCCESS;
}

static struct physical *own_physical(uint64_t id)
{
    for (uint32_t i = 0; i < HANDLES; i++)
        if (physicals[i] && physicals[i]->id == id && physicals[i]->fd < 0)
            return physicals[i];
    return NULL;
}

/* Importing memory that this process created, even if it released its handles, only adds a handle. */
static struct physical *import_physical(const struct fake_shared *shared)
{
    if (shared->pid == getpid()) {
        struct physical *memory = own_physical(shared->id);
        if (memory)
            memory->handles++;
        return memory;
    }
    int fd = fake_shared_open(shared);
    struct physical *memory = fd >= 0 ? add_physical() : NULL;
    if (!memory) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    memory->fd = fd;
    memory->offset = shared->offset;
    memory->bytes = shared->bytes;
    memory->device = shared->physical;
    return memory;
}

/* `shared` is the descriptor itself, passed by value in place of a pointer. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                        CUmemAllocationHandleType type)
{
    struct fake_shared token;
    int fd = (int)(intptr_t)shared;

    if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !fake_shared_read(fd, FAKE_SHARED_VIRTUAL, &token))
        return CUDA_ERROR_INVALID_VALUE;
    fake_memory_lock();
    struct physical *memory = import_physical(&token);
    if (memory)
        *handle = memory->index + 1;
    fake_memory_unlock();
    return memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
