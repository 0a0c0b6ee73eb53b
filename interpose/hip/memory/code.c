/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: measuring and charging code objects. Never: touches its list without the devices' lock. */
#include "code.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "interpose/hip/initialize.h"
#include "interpose/hip/measure.h"

/* A module, or a library, on the device where it was loaded. */
struct image {
    struct image *next;
    const void *handle;
    uint32_t device;
    bool was_queried; /* a library: something of it was asked for, so it is loaded */
    uint64_t bytes;
    uint64_t uncharged_bytes; /* loaded beyond the quota; the next charge includes it */
};

/* The measurement of one call on a device. A call that the runtime makes within another call is not measured. */
struct watch {
    bool is_measured;
    struct facet_hip_measure measure;
};

static struct image *images;
static struct image unattributed[FACET_HIP_TENANTS]; /* code that belongs to no known image */

static struct image **find_link(const void *handle)
{
    struct image **at = &images;

    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

/* ---- watching a call ---- */

static void begin_watch_on(struct watch *watch, uint32_t device)
{
    watch->is_measured = device < FACET_HIP_TENANTS && facet_hip_devices_lock();
    if (watch->is_measured)
        facet_hip_measure_begin(&watch->measure, device);
}

static hipError_t begin_watch(struct watch *watch)
{
    uint32_t device = facet_hip_current_device();
    hipError_t result = facet_hip_initialize_device(device);

    if (result == hipSuccess)
        begin_watch_on(watch, device);
    return result;
}

static hipError_t end_watch(const struct watch *watch, hipError_t result)
{
    if (watch->is_measured) {
        facet_hip_measure_end(&watch->measure);
        facet_hip_devices_unlock();
    }
    return result;
}

static void release_image_charge(struct image *image)
{
    facet_charge_drop(&(struct facet_memory_charge){
        .tenant = facet_hip_tenant(image->device), .bytes = image->bytes, .device = image->device});
    image->bytes = image->uncharged_bytes = 0;
}

/* Adds the growth during the call to the image. */
static hipError_t charge_image(const struct watch *watch, struct image *image)
{
    struct facet_memory_charge charge;
    uint32_t device = watch->measure.device;
    uint64_t bytes = facet_hip_measure_growth(&watch->measure) + image->uncharged_bytes;
    hipError_t result = bytes ? facet_hip_refusal(facet_charge_take(device, bytes, &charge)) : hipSuccess;

    image->device = device;
    image->uncharged_bytes = result == hipSuccess ? 0 : bytes;
    image->bytes += result == hipSuccess ? bytes : 0;
    return result;
}

/* ---- objects that need no second measurement ---- */

#define SEEN_SYMBOLS 1024u /* a collision displaces the older symbol, which is then looked up again */

static _Atomic uint64_t seen_symbols[SEEN_SYMBOLS];

/* A symbol's address and a device as one number: addresses leave the upper bits free. */
static uint64_t symbol_name(const void *host, uint32_t device)
{
    return (uintptr_t)host | (uint64_t)device << 56;
}

static _Atomic uint64_t *seen_entry(uint64_t name)
{
    return &seen_symbols[(name >> 4 ^ name >> 56) % SEEN_SYMBOLS];
}

static uint64_t note_key(uint64_t name)
{
    return facet_memory_key(FACET_MEMORY_LOADED, name * UINT64_C(0x9e3779b97f4a7c15) >> 8 | 1);
}

static bool is_loaded(uint64_t name)
{
    struct facet_ledger_entry entry;

    if (atomic_load_explicit(seen_entry(name), memory_order_relaxed) == name)
        return true;
    if (!facet_ledger_find(facet_hip_process.ledger, note_key(name), &entry))
        return false;
    atomic_store_explicit(seen_entry(name), name, memory_order_relaxed);
    return true;
}

/* If the ledger has no memory for the note, the object is measured again next time. */
static void remember_name(uint64_t name)
{
    facet_ledger_add(facet_hip_process.ledger, note_key(name),
                     (struct facet_ledger_entry){.kind = FACET_MEMORY_LOADED});
}

static bool is_note(const struct facet_ledger_entry *entry, void *unused)
{
    (void)unused;
    return entry->kind == FACET_MEMORY_LOADED;
}

static void ignore_entry(uint64_t key, const struct facet_ledger_entry *entry, void *unused)
{
    (void)key;
    (void)entry;
    (void)unused;
}

static void forget_seen(void)
{
    for (size_t i = 0; i < SEEN_SYMBOLS; i++)
        atomic_store_explicit(&seen_symbols[i], 0, memory_order_relaxed);
}

/* After an unload, the addresses of symbols may be reused. */
static void forget_loaded(void)
{
    facet_ledger_drain(facet_hip_process.ledger, is_note, ignore_entry, NULL);
    forget_seen();
}

/* ---- loading and unloading ---- */

static hipError_t unload_module(const void *handle)
{
    return facet_hip_driver.hipModuleUnload((hipModule_t)(uintptr_t)handle); /* NOLINT(performance-no-int-to-ptr) */
}

static hipError_t unload_library(const void *handle)
{
    return facet_hip_driver.hipLibraryUnload((hipLibrary_t)(uintptr_t)handle); /* NOLINT(performance-no-int-to-ptr) */
}

static hipError_t keep_image(const struct watch *watch, const void *handle)
{
    struct image *image = calloc(1, sizeof *image);

    if (!image)
        return hipErrorOutOfMemory;
    *image = (struct image){.next = images, .handle = handle};
    hipError_t result = charge_image(watch, image);
    if (result == hipSuccess)
        images = image;
    else
        free(image);
    return result;
}

/* Records an image that was just loaded, or unloads it. */
static hipError_t image_loaded(const struct watch *watch, hipError_t result, const void *handle,
                               hipError_t (*unload)(const void *handle))
{
    if (result == hipSuccess && watch->is_measured) {
        result = keep_image(watch, handle);
        if (result != hipSuccess)
            unload(handle);
    }
    return end_watch(watch, result);
}

#define LOAD(name, type, unload, parameters, ...)                                                                      \
    hipError_t facet_##name parameters                                                                                 \
    {                                                                                                                  \
        struct watch watch;                                                                                            \
        hipError_t result = begin_watch(&watch);                                                                       \
                                                                                                                       \
        if (result != hipSuccess)                                                                                      \
            return result;                                                                                             \
        result = facet_hip_driver.name(__VA_ARGS__);                                                                   \
        return image_loaded(&watch, result, result == hipSuccess ? *type : NULL, unload);                              \
    }

LOAD(hipModuleLoad, module, unload_module, (hipModule_t * module, const char *path), module, path)
LOAD(hipModuleLoadData, module, unload_module, (hipModule_t * module, const void *image), module, image)
LOAD(hipModuleLoadDataEx, module, unload_module,
     (hipModule_t * module, const void *image, unsigned count, int *options, void **values), module, image, count,
     options, values)
LOAD(hipModuleLoadFatBinary, module, unload_module, (hipModule_t * module, const void *image), module, image)
LOAD(hipLibraryLoadData, library, unload_library,
     (hipLibrary_t * library, const void *code, int *options, void **values, unsigned count, int *library_options,
      void **library_values, unsigned library_count),
     library, code, options, values, count, library_options, library_values, library_count)
LOAD(hipLibraryLoadFromFile, library, unload_library,
     (hipLibrary_t * library, const char *path, int *options, void **values, unsigned count, int *library_options,
      void **library_values, unsigned library_count),
     library, path, options, values, count, library_options, library_values, library_count)

static hipError_t unload_image(const void *handle, hipError_t (*call)(const void *handle))
{
    struct watch watch = {.is_measured = facet_hip_devices_lock()};
    hipError_t result = call(handle);
    struct image **at = find_link(handle), *image = *at;

    if (watch.is_measured && result == hipSuccess && image) {
        *at = image->next;
        release_image_charge(image);
        free(image);
        forget_loaded();
    }
    return end_watch(&watch, result);
}

hipError_t facet_hipModuleUnload(hipModule_t module)
{
    return unload_image(module, unload_module);
}

hipError_t facet_hipLibraryUnload(hipLibrary_t library)
{
    return unload_image(library, unload_library);
}

/* ---- libraries, which are loaded when something of them is asked for ---- */

/* If the quota has too little left, the next call is refused again; unloading the library releases its memory. */
static hipError_t after_query(const struct watch *watch, const void *handle, hipError_t result)
{
    struct image *image = watch->is_measured ? *find_link(handle) : NULL;

    if (result == hipSuccess && image && (!image->was_queried || image->uncharged_bytes)) {
        result = charge_image(watch, image);
        image->was_queried = true;
    }
    return end_watch(watch, result);
}

#define QUERY(name, parameters, ...)                                                                                   \
    hipError_t facet_##name parameters                                                                                 \
    {                                                                                                                  \
        struct watch watch;                                                                                            \
        hipError_t result = begin_watch(&watch);                                                                       \
                                                                                                                       \
        return result == hipSuccess ? after_query(&watch, library, facet_hip_driver.name(__VA_ARGS__)) : result;       \
    }

QUERY(hipLibraryGetKernel, (hipKernel_t * kernel, hipLibrary_t library, const char *name), kernel, library, name)
QUERY(hipLibraryGetKernelCount, (unsigned *count, hipLibrary_t library), count, library)

/* A query about a symbol of the host loads its code object. */
#define QUERY_SYMBOL(name, symbol, parameters, ...)                                                                    \
    hipError_t facet_##name parameters                                                                                 \
    {                                                                                                                  \
        hipError_t result = facet_hip_initialize_device(facet_hip_current_device());                                   \
                                                                                                                       \
        if (result != hipSuccess)                                                                                      \
            return result;                                                                                             \
        if (!facet_hip_code_launch_begin(symbol, NULL))                                                                \
            return facet_hip_driver.name(__VA_ARGS__);                                                                 \
        return facet_hip_code_launch_end(facet_hip_driver.name(__VA_ARGS__));                                          \
    }

QUERY_SYMBOL(hipGetFuncBySymbol, host, (hipFunction_t * function, const void *host), function, host)
QUERY_SYMBOL(hipFuncGetAttributes, host, (struct hipFuncAttributes * attributes, const void *host), attributes, host)
QUERY_SYMBOL(hipGetSymbolAddress, host, (void **address, const void *host), address, host)
QUERY_SYMBOL(hipGetSymbolSize, host, (size_t * size, const void *host), size, host)
QUERY_SYMBOL(hipOccupancyMaxActiveBlocksPerMultiprocessor, host,
             (int *blocks, const void *host, int block_size, size_t shared), blocks, host, block_size, shared)
QUERY_SYMBOL(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, host,
             (int *blocks, const void *host, int block_size, size_t shared, unsigned flags), blocks, host, block_size,
             shared, flags)
QUERY_SYMBOL(hipOccupancyMaxPotentialBlockSize, host,
             (int *grid, int *block, const void *host, size_t shared, int limit), grid, block, host, shared, limit)
QUERY_SYMBOL(hipGraphAddKernelNode, parameters ? parameters->func : NULL,
             (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t *dependencies, size_t count,
              const hipKernelNodeParams *parameters),
             node, graph, dependencies, count, parameters)

/* ---- code that is loaded by its first launch ---- */

/* Used by the thread that has locked the devices. */
static struct watch launch_watch;
static uint64_t launch_symbol;

bool facet_hip_code_launch_begin(const void *host, hipStream_t stream)
{
    uint32_t device = facet_hip_stream_device(stream);
    uint64_t name = symbol_name(host, device);
    struct watch watch;

    if (!host || is_loaded(name) || !facet_hip_tenant(device))
        return false;
    begin_watch_on(&watch, device);
    if (!watch.is_measured)
        return false;
    launch_watch = watch;
    launch_symbol = name;
    return true;
}

hipError_t facet_hip_code_launch_end(hipError_t result)
{
    struct watch watch = launch_watch;

    if (result == hipSuccess && charge_image(&watch, &unattributed[watch.measure.device]) == hipSuccess)
        remember_name(launch_symbol);
    return end_watch(&watch, result);
}

void facet_hip_code_charge_later(uint32_t device, uint64_t bytes)
{
    unattributed[device].uncharged_bytes += bytes;
}

void facet_hip_code_unloaded(uint32_t device, uint64_t bytes)
{
    struct facet_tenant *tenant = facet_hip_tenant(device);
    uint64_t released = unattributed[device].bytes < bytes ? unattributed[device].bytes : bytes;

    if (tenant)
        facet_tenant_release(tenant, released);
    unattributed[device].bytes -= released;
    forget_loaded();
}

void facet_hip_code_device_ended(uint32_t device)
{
    for (struct image *image = images; image; image = image->next)
        if (image->device == device) {
            release_image_charge(image);
            image->was_queried = false;
        }
    unattributed[device].device = device;
    release_image_charge(&unattributed[device]);
    forget_loaded();
}

void facet_hip_code_forked(void)
{
    forget_seen();
    while (images) {
        struct image *image_of_parent = images;

        images = image_of_parent->next;
        free(image_of_parent);
    }
    for (uint32_t i = 0; i < FACET_HIP_TENANTS; i++)
        unattributed[i] = (struct image){.next = NULL};
}
