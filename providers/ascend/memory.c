/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: contexts, plain memory and copies over AscendCL.
 * Never: touches memory outside of the context: every range is checked first.
 *
 * AscendCL works on the context that is current in the calling thread, so each operation makes its own current. The
 * lock admits one operation at a time: only tools and tests use this path, because programs call AscendCL themselves.
 */
#include <stdlib.h>

#include "ascend.h"

#define ALIGNMENT   256u /* as the ABI promises */
#define CHUNK_BYTES (UINT64_C(1) << 20)

static struct ascend_context *find_context(const struct facet_provider_instance *instance, uint64_t number)
{
    struct ascend_context *context = instance->contexts;

    while (context && context->number != number)
        context = context->next;
    return context;
}

/* The beginning of each operation, under the lock: finds the context and makes it current in this thread. */
static enum facet_status enter_context(struct facet_provider_instance *instance, uint64_t number,
                                       struct ascend_context **ret_context, struct facet_error *error)
{
    struct ascend_context *context = find_context(instance, number);

    if (!context)
        return facet_kit_fail(error, FACET_NOT_FOUND, "there is no context %" PRIu64, number);
    int code = instance->acl.aclrtSetCurrentContext(context->acl);
    if (code)
        return ascend_acl_fail(&instance->acl, error, "aclrtSetCurrentContext", code);
    *ret_context = context;
    return FACET_OK;
}

static enum facet_status open_context(struct facet_provider_instance *instance, uint32_t device, const char *name,
                                      uint64_t *ret_number, struct facet_error *error)
{
    struct ascend_chip *chip = &instance->chips[device];
    enum facet_status status = ascend_acl_start(&instance->acl, error);

    if (status != FACET_OK)
        return status;
    struct ascend_context *context = calloc(1, sizeof *context);
    struct ascend_worker *worker = context ? ascend_worker_take(chip, name) : NULL;
    if (!worker) {
        free(context);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a context");
    }
    int code = instance->acl.aclrtCreateContext(&context->acl, chip->logic);
    if (code) {
        free(context);
        ascend_worker_drop(chip, worker);
        return ascend_acl_fail(&instance->acl, error, "aclrtCreateContext", code);
    }
    context->number = ++instance->last_context;
    context->device = device;
    context->worker = worker;
    worker->contexts++;
    context->next = instance->contexts;
    instance->contexts = context;
    *ret_number = context->number;
    return FACET_OK;
}

static enum facet_status ascend_memory_create_context(struct facet_provider_instance *instance, uint32_t device,
                                                      const char *partition_uuid, const char *worker,
                                                      uint64_t *ret_context, struct facet_error *error)
{
    enum facet_status status = ascend_device_check(instance, device, FACET_CAN_MEMORY, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    if (status != FACET_OK)
        return status;
    if (partition_uuid && *partition_uuid)
        return facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.64s': Ascend devices have none", partition_uuid);
    if (!ret_context)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_context: expected an address, not NULL");
    pthread_mutex_lock(&instance->lock);
    status = open_context(instance, device, worker, ret_context, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

/* Releases everything in any case, and returns the first code that was not 0. */
static int close_context(struct facet_provider_instance *instance, struct ascend_context *context)
{
    struct ascend_context **link = &instance->contexts;
    int first = instance->acl.aclrtSetCurrentContext(context->acl);

    while (context->allocations) {
        struct ascend_allocation *allocation = context->allocations;
        int code = instance->acl.aclrtFree(allocation->block);

        first = first ? first : code;
        context->worker->used_bytes -= allocation->bytes;
        context->allocations = allocation->next;
        free(allocation);
    }
    int code = instance->acl.aclrtDestroyContext(context->acl);
    first = first ? first : code;
    while (*link != context)
        link = &(*link)->next;
    *link = context->next;
    context->worker->contexts--;
    ascend_worker_drop(&instance->chips[context->device], context->worker);
    free(context);
    return first;
}

void ascend_contexts_free(struct facet_provider_instance *instance)
{
    while (instance->contexts)
        close_context(instance, instance->contexts);
}

static enum facet_status ascend_memory_destroy_context(struct facet_provider_instance *instance, uint64_t number,
                                                       struct facet_error *error)
{
    struct ascend_context *context = NULL;

    pthread_mutex_lock(&instance->lock);
    enum facet_status status = enter_context(instance, number, &context, error);
    int code = status == FACET_OK ? close_context(instance, context) : 0;
    pthread_mutex_unlock(&instance->lock);
    return code ? ascend_acl_fail(&instance->acl, error, "destroying the context", code) : status;
}

/* A worker with a limit sees its limit, others the device. */
static enum facet_status read_info(const struct facet_provider_instance *instance, const struct ascend_context *context,
                                   struct facet_memory_info *ret_info, struct facet_error *error)
{
    size_t available = 0, total = 0;

    *ret_info = (struct facet_memory_info){.size = sizeof *ret_info, .page_bytes = ALIGNMENT};
    if (context->worker->valid & FACET_WORKER_HAS_MEMORY) {
        ret_info->total_bytes = context->worker->limit_bytes;
        ret_info->used_bytes = context->worker->used_bytes;
        return FACET_OK;
    }
    int code = instance->acl.aclrtGetMemInfo(ACL_MEMORY_HBM, &available, &total);
    if (code == 0 && total == 0) /* a chip without HBM */
        code = instance->acl.aclrtGetMemInfo(ACL_MEMORY_DDR, &available, &total);
    if (code)
        return ascend_acl_fail(&instance->acl, error, "aclrtGetMemInfo", code);
    if (available > total)
        return facet_kit_fail(error, FACET_CORRUPT, "aclrtGetMemInfo: %zu of %zu bytes are free", available, total);
    ret_info->total_bytes = total;
    ret_info->used_bytes = total - available;
    return FACET_OK;
}

static enum facet_status ascend_memory_info(struct facet_provider_instance *instance, uint64_t number,
                                            struct facet_memory_info *ret_info, struct facet_error *error)
{
    struct ascend_context *context = NULL;
    struct facet_memory_info info;

    pthread_mutex_lock(&instance->lock);
    enum facet_status status = enter_context(instance, number, &context, error);
    if (status == FACET_OK)
        status = read_info(instance, context, &info, error);
    pthread_mutex_unlock(&instance->lock);
    return status == FACET_OK ? facet_kit_struct(&info, sizeof info, ret_info, error) : status;
}

/*
 * AscendCL promises an alignment of 64 bytes only. A block that is not aligned to ALIGNMENT is replaced by a larger
 * block, which contains an aligned part.
 */
static int take_block(const struct ascend_acl *acl, uint64_t bytes, void **ret_block)
{
    void *block = NULL;
    int code = acl->aclrtMalloc(&block, bytes, ACL_HUGE_PAGES_FIRST);

    if (code == 0 && (uintptr_t)block % ALIGNMENT) {
        acl->aclrtFree(block);
        code = acl->aclrtMalloc(&block, bytes + ALIGNMENT - 1, ACL_HUGE_PAGES_FIRST);
    }
    if (code == 0)
        *ret_block = block;
    return code;
}

static enum facet_status allocate_memory(struct facet_provider_instance *instance, struct ascend_context *context,
                                         uint64_t bytes, uint64_t *ret_address, struct facet_error *error)
{
    struct ascend_worker *worker = context->worker;
    uint64_t device_bytes = instance->infos[context->device].memory_bytes;

    if (worker->valid & FACET_WORKER_HAS_MEMORY && bytes > worker->limit_bytes - worker->used_bytes)
        return facet_kit_fail(error, FACET_QUOTA, "%" PRIu64 " bytes: worker '%s' holds %" PRIu64 " of %" PRIu64, bytes,
                              worker->name, worker->used_bytes, worker->limit_bytes);
    if (bytes > device_bytes)
        return facet_kit_fail(error, FACET_NO_SPACE, "%" PRIu64 " bytes: the device has %" PRIu64, bytes, device_bytes);
    struct ascend_allocation *allocation = calloc(1, sizeof *allocation);
    if (!allocation)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an allocation");
    int code = take_block(&instance->acl, bytes, &allocation->block);
    if (code) {
        free(allocation);
        return ascend_acl_fail(&instance->acl, error, "aclrtMalloc", code);
    }
    allocation->address = ((uintptr_t)allocation->block + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    allocation->bytes = bytes;
    allocation->next = context->allocations;
    context->allocations = allocation;
    worker->used_bytes += bytes;
    *ret_address = allocation->address;
    return FACET_OK;
}

static enum facet_status ascend_memory_alloc(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                             uint64_t *ret_address, struct facet_error *error)
{
    struct ascend_context *context = NULL;

    if (!ret_address)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_address: expected an address, not NULL");
    pthread_mutex_lock(&instance->lock);
    enum facet_status status = enter_context(instance, number, &context, error);
    if (status == FACET_OK && bytes == 0)
        status = facet_kit_fail(error, FACET_OUT_OF_RANGE, "0 bytes: expected at least 1");
    if (status == FACET_OK)
        status = allocate_memory(instance, context, bytes, ret_address, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

static enum facet_status free_memory(struct facet_provider_instance *instance, struct ascend_context *context,
                                     uint64_t address, struct facet_error *error)
{
    struct ascend_allocation **link = &context->allocations;

    while (*link && (*link)->address != address)
        link = &(*link)->next;
    struct ascend_allocation *allocation = *link;
    if (!allocation)
        return facet_kit_fail(error, FACET_NOT_FOUND, "nothing was allocated at 0x%" PRIx64, address);
    int code = instance->acl.aclrtFree(allocation->block);
    if (code)
        return ascend_acl_fail(&instance->acl, error, "aclrtFree", code);
    *link = allocation->next;
    context->worker->used_bytes -= allocation->bytes;
    free(allocation);
    return FACET_OK;
}

static enum facet_status ascend_memory_free(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                            struct facet_error *error)
{
    struct ascend_context *context = NULL;

    pthread_mutex_lock(&instance->lock);
    enum facet_status status = enter_context(instance, number, &context, error);
    if (status == FACET_OK)
        status = free_memory(instance, context, address, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

/* Whether [address, address + bytes) lies in one allocation. */
static enum facet_status check_range(const struct ascend_context *context, uint64_t address, uint64_t bytes,
                                     struct facet_error *error)
{
    for (const struct ascend_allocation *in = context->allocations; in; in = in->next) {
        if (address >= in->address && address - in->address <= in->bytes &&
            bytes <= in->bytes - (address - in->address))
            return FACET_OK;
    }
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "%" PRIu64 " bytes at 0x%" PRIx64 ": expected a range inside one allocation", bytes, address);
}

static void *device_pointer(uint64_t address)
{
    return (void *)(uintptr_t)address; /* NOLINT: a number of the device, never followed here */
}

static enum facet_status ascend_memory_write(struct facet_provider_instance *instance, uint64_t number,
                                             uint64_t address, const void *data, uint64_t bytes,
                                             struct facet_error *error)
{
    struct ascend_context *context = NULL;
    int code = 0;

    if (!data)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "data: expected bytes, not NULL");
    pthread_mutex_lock(&instance->lock);
    enum facet_status status = enter_context(instance, number, &context, error);
    if (status == FACET_OK)
        status = check_range(context, address, bytes, error);
    if (status == FACET_OK && bytes)
        code = instance->acl.aclrtMemcpy(device_pointer(address), bytes, data, bytes, ACL_HOST_TO_DEVICE);
    pthread_mutex_unlock(&instance->lock);
    return code ? ascend_acl_fail(&instance->acl, error, "aclrtMemcpy to the device", code) : status;
}

static enum facet_status ascend_memory_read(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                            uint64_t bytes, void *ret_data, struct facet_error *error)
{
    struct ascend_context *context = NULL;
    int code = 0;

    if (!ret_data)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_data: expected room, not NULL");
    pthread_mutex_lock(&instance->lock);
    enum facet_status status = enter_context(instance, number, &context, error);
    if (status == FACET_OK)
        status = check_range(context, address, bytes, error);
    if (status == FACET_OK && bytes)
        code = instance->acl.aclrtMemcpy(ret_data, bytes, device_pointer(address), bytes, ACL_DEVICE_TO_HOST);
    pthread_mutex_unlock(&instance->lock);
    return code ? ascend_acl_fail(&instance->acl, error, "aclrtMemcpy to the host", code) : status;
}

/*
 * AscendCL does not define copies between overlapping ranges. So they go through the host in pieces, from the end at
 * which no piece overwrites bytes that are still to be read.
 */
static int copy_overlapping(const struct ascend_acl *acl, uint64_t to, uint64_t from, uint64_t bytes, void *piece)
{
    int code = 0;

    for (uint64_t done = 0, length; code == 0 && done < bytes; done += length) {
        length = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
        uint64_t at = to > from ? bytes - done - length : done;

        code = acl->aclrtMemcpy(piece, length, device_pointer(from + at), length, ACL_DEVICE_TO_HOST);
        if (code == 0)
            code = acl->aclrtMemcpy(device_pointer(to + at), length, piece, length, ACL_HOST_TO_DEVICE);
    }
    return code;
}

static enum facet_status copy_memory(const struct ascend_acl *acl, uint64_t to, uint64_t from, uint64_t bytes,
                                     struct facet_error *error)
{
    int code;

    if (to == from || bytes == 0)
        return FACET_OK;
    if ((to > from ? to - from : from - to) >= bytes) {
        code = acl->aclrtMemcpy(device_pointer(to), bytes, device_pointer(from), bytes, ACL_DEVICE_TO_DEVICE);
    } else {
        void *piece = malloc(CHUNK_BYTES);

        if (!piece)
            return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a copy");
        code = copy_overlapping(acl, to, from, bytes, piece);
        free(piece);
    }
    return code ? ascend_acl_fail(acl, error, "aclrtMemcpy on the device", code) : FACET_OK;
}

static enum facet_status ascend_memory_copy(struct facet_provider_instance *instance, uint64_t number, uint64_t to,
                                            uint64_t from, uint64_t bytes, struct facet_error *error)
{
    struct ascend_context *context = NULL;

    pthread_mutex_lock(&instance->lock);
    enum facet_status status = enter_context(instance, number, &context, error);
    if (status == FACET_OK)
        status = check_range(context, to, bytes, error);
    if (status == FACET_OK)
        status = check_range(context, from, bytes, error);
    if (status == FACET_OK)
        status = copy_memory(&instance->acl, to, from, bytes, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

static enum facet_status ascend_memory_fill(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                            uint8_t value, uint64_t bytes, struct facet_error *error)
{
    struct ascend_context *context = NULL;
    int code = 0;

    pthread_mutex_lock(&instance->lock);
    enum facet_status status = enter_context(instance, number, &context, error);
    if (status == FACET_OK)
        status = check_range(context, address, bytes, error);
    if (status == FACET_OK && bytes)
        code = instance->acl.aclrtMemset(device_pointer(address), bytes, value, bytes);
    pthread_mutex_unlock(&instance->lock);
    return code ? ascend_acl_fail(&instance->acl, error, "aclrtMemset", code) : status;
}

const struct facet_memory_ops ascend_memory_ops = {
    .size = sizeof ascend_memory_ops,
    .create_context = ascend_memory_create_context,
    .destroy_context = ascend_memory_destroy_context,
    .info = ascend_memory_info,
    .alloc = ascend_memory_alloc,
    .free = ascend_memory_free,
    .write = ascend_memory_write,
    .read = ascend_memory_read,
    .copy = ascend_memory_copy,
    .fill = ascend_memory_fill,
};
