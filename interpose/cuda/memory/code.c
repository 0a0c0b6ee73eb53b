/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: measuring and charging modules and libraries. Never: touches its list without the contexts' lock. */
#include "code.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "charge.h"
#include "context.h"
#include "measure.h"

/* A module, or a library. */
struct image {
    struct image *next;
    const void *handle;
    CUcontext context; /* the module is unloaded with this context; NULL: a library */
    uint64_t bytes[FACET_CUDA_TENANTS];
    uint64_t uncharged_bytes[FACET_CUDA_TENANTS]; /* loaded beyond the quota; the next charge includes it */
};

/* The measurement of one call on some devices. */
struct watch {
    bool is_measured[FACET_CUDA_TENANTS];
    struct facet_cuda_measure measures[FACET_CUDA_TENANTS];
};

static struct image *images;
static struct image unattributed; /* code that belongs to no known image; its contexts are charged */

static struct image *find_image(const void *handle)
{
    struct image *image = images;

    while (image && image->handle != handle)
        image = image->next;
    return image;
}

/* ---- watching a call ---- */

static void watch_device(struct watch *watch, uint32_t device)
{
    CUcontext context = facet_cuda_context_of(device);

    watch->is_measured[device] = context;
    if (context)
        facet_cuda_measure_begin(&watch->measures[device], device, context);
}

/* A module belongs to the current context; a library is loaded into every context. */
static void begin_watch(struct watch *watch, bool in_every_context)
{
    facet_cuda_contexts_lock();
    *watch = (struct watch){.is_measured = {false}};
    if (!in_every_context)
        watch_device(watch, facet_cuda_current_device());
    for (uint32_t i = 0; in_every_context && i < facet_cuda_process.count; i++)
        watch_device(watch, i);
}

static uint64_t measured_growth(struct watch *watch, uint32_t device)
{
    return facet_cuda_measure_growth(&watch->measures[device], facet_cuda_context_of(device));
}

static void release_image_charge(const struct image *image, uint32_t device)
{
    facet_cuda_charge_drop(&(struct facet_cuda_charge){
        .tenant = facet_cuda_tenant(device), .bytes = image->bytes[device], .device = device});
}

static void release_image_charges(const struct image *image)
{
    for (uint32_t i = 0; i < FACET_CUDA_TENANTS; i++)
        if (image->bytes[i])
            release_image_charge(image, i);
}

static CUresult charge_growth(uint32_t device, uint64_t growth, struct image *image)
{
    struct facet_cuda_charge charge;
    uint64_t bytes = growth + image->uncharged_bytes[device];
    CUresult result = CUDA_SUCCESS;

    if (bytes)
        result = image == &unattributed ? facet_cuda_context_charge_more(bytes)
                                        : facet_cuda_charge_take(device, bytes, &charge);
    image->uncharged_bytes[device] = result == CUDA_SUCCESS ? 0 : bytes;
    if (result == CUDA_SUCCESS)
        image->bytes[device] += bytes;
    return result;
}

/* Adds the growth during the call to the image. */
static CUresult charge_image(struct watch *watch, struct image *image)
{
    CUresult result = CUDA_SUCCESS;

    for (uint32_t i = 0; i < FACET_CUDA_TENANTS && result == CUDA_SUCCESS; i++)
        if (watch->is_measured[i])
            result = charge_growth(i, measured_growth(watch, i), image);
    return result;
}

/* Records an image that was just loaded. On failure the caller unloads it. */
static CUresult keep_image(struct watch *watch, const void *handle, bool library)
{
    struct image *image = calloc(1, sizeof *image);

    if (!image)
        return CUDA_ERROR_OUT_OF_MEMORY;
    image->handle = handle;
    image->context = library ? NULL : (CUcontext)(uintptr_t)facet_cuda_owner();
    CUresult result = charge_image(watch, image);
    if (result == CUDA_SUCCESS) {
        image->next = images;
        images = image;
        return CUDA_SUCCESS;
    }
    release_image_charges(image);
    free(image);
    return result;
}

/* ---- objects that need no second measurement ---- */

/* The key of a name in an image, or of a handle in a context. */
static uint64_t note_key(const void *one, const void *other, const char *name)
{
    uint64_t hash = (uintptr_t)one * UINT64_C(0x9e3779b97f4a7c15) ^ (uintptr_t)other;

    for (; name && *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return facet_cuda_key(FACET_CUDA_LOADED, hash >> 8 | 1);
}

static bool is_loaded(uint64_t key)
{
    struct facet_ledger_entry entry;

    return facet_cuda_process.ledger && facet_ledger_find(facet_cuda_process.ledger, key, &entry);
}

/* If the ledger has no memory for the note, the object is measured again next time. */
static void remember_key(uint64_t key)
{
    facet_ledger_add(facet_cuda_process.ledger, key, (struct facet_ledger_entry){.kind = FACET_CUDA_LOADED});
}

static bool is_note(const struct facet_ledger_entry *entry, void *unused)
{
    (void)unused;
    return entry->kind == FACET_CUDA_LOADED;
}

static void ignore_entry(uint64_t key, const struct facet_ledger_entry *entry, void *unused)
{
    (void)key;
    (void)entry;
    (void)unused;
}

/* After an unload, the driver may reuse handles. */
static void forget_loaded(void)
{
    facet_ledger_drain(facet_cuda_process.ledger, is_note, ignore_entry, NULL);
}

/* Functions that were launched before. A collision displaces the older function, which is then looked up again. */
#define SEEN_FUNCTIONS 1024u

static _Atomic(CUfunction) seen_functions[SEEN_FUNCTIONS];

static _Atomic(CUfunction) *seen_entry(CUfunction function)
{
    return &seen_functions[((uintptr_t)function >> 4) % SEEN_FUNCTIONS];
}

static void forget_seen(void)
{
    for (size_t i = 0; i < SEEN_FUNCTIONS; i++)
        atomic_store_explicit(&seen_functions[i], NULL, memory_order_relaxed);
}

/* ---- loading and unloading ---- */

static void forget_image(struct image **at)
{
    struct image *image = *at;

    *at = image->next;
    release_image_charges(image);
    free(image);
}

static struct image **find_link(const void *handle)
{
    struct image **at = &images;

    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

#define LOAD(name, type, library, unload, parameters, ...)                                                             \
    CUresult facet_##name parameters                                                                                   \
    {                                                                                                                  \
        struct watch watch;                                                                                            \
                                                                                                                       \
        begin_watch(&watch, library);                                                                                  \
        CUresult result = facet_cuda_driver.name(__VA_ARGS__);                                                         \
        if (result == CUDA_SUCCESS) {                                                                                  \
            result = keep_image(&watch, *type, library);                                                               \
            if (result != CUDA_SUCCESS)                                                                                \
                facet_cuda_driver.unload(*type);                                                                       \
        }                                                                                                              \
        facet_cuda_contexts_unlock();                                                                                  \
        return result;                                                                                                 \
    }

LOAD(cuModuleLoad, module, false, cuModuleUnload, (CUmodule * module, const char *path), module, path)
LOAD(cuModuleLoadData, module, false, cuModuleUnload, (CUmodule * module, const void *image), module, image)
LOAD(cuModuleLoadDataEx, module, false, cuModuleUnload,
     (CUmodule * module, const void *image, unsigned count, int *options, void **values), module, image, count, options,
     values)
LOAD(cuModuleLoadFatBinary, module, false, cuModuleUnload, (CUmodule * module, const void *image), module, image)
LOAD(cuLibraryLoadData, library, true, cuLibraryUnload,
     (CUlibrary * library, const void *code, int *options, void **values, unsigned count, int *library_options,
      void **library_values, unsigned library_count),
     library, code, options, values, count, library_options, library_values, library_count)
LOAD(cuLibraryLoadFromFile, library, true, cuLibraryUnload,
     (CUlibrary * library, const char *path, int *options, void **values, unsigned count, int *library_options,
      void **library_values, unsigned library_count),
     library, path, options, values, count, library_options, library_values, library_count)

static CUresult finish_unload(const void *handle, CUresult result)
{
    struct image **at = find_link(handle);

    if (result == CUDA_SUCCESS && *at) {
        forget_image(at);
        forget_loaded();
        forget_seen();
    }
    facet_cuda_contexts_unlock();
    return result;
}

CUresult facet_cuModuleUnload(CUmodule module)
{
    facet_cuda_contexts_lock();
    return finish_unload(module, facet_cuda_driver.cuModuleUnload(module));
}

CUresult facet_cuLibraryUnload(CUlibrary library)
{
    facet_cuda_contexts_lock();
    return finish_unload(library, facet_cuda_driver.cuLibraryUnload(library));
}

/* ---- objects that are loaded when the program asks for them ---- */

/* `handle`: the image asked, or NULL; `key`: the object asked for. */
static CUresult finish_query(struct watch *watch, const void *handle, uint64_t key, CUresult result)
{
    struct image *found = find_image(handle);

    if (result == CUDA_SUCCESS)
        result = charge_image(watch, found ? found : &unattributed);
    if (result == CUDA_SUCCESS && handle)
        remember_key(key);
    facet_cuda_contexts_unlock();
    return result;
}

#define QUERY(name, image, what, parameters, ...)                                                                      \
    CUresult facet_##name parameters                                                                                   \
    {                                                                                                                  \
        struct watch watch;                                                                                            \
        uint64_t key = note_key(image, (const void *)(uintptr_t)facet_cuda_owner(), what);                             \
                                                                                                                       \
        if (is_loaded(key))                                                                                            \
            return facet_cuda_driver.name(__VA_ARGS__);                                                                \
        begin_watch(&watch, false);                                                                                    \
        return finish_query(&watch, image, key, facet_cuda_driver.name(__VA_ARGS__));                                  \
    }

QUERY(cuModuleGetFunction, module, object_name, (CUfunction * function, CUmodule module, const char *object_name),
      function, module, object_name)
QUERY(cuModuleGetGlobal, module, object_name,
      (CUdeviceptr_v1 * pointer, unsigned *bytes, CUmodule module, const char *object_name), pointer, bytes, module,
      object_name)
QUERY(cuModuleGetGlobal_v2, module, object_name,
      (CUdeviceptr * pointer, size_t *bytes, CUmodule module, const char *object_name), pointer, bytes, module,
      object_name)
QUERY(cuLibraryGetModule, library, NULL, (CUmodule * module, CUlibrary library), module, library)
QUERY(cuLibraryGetGlobal, library, object_name,
      (CUdeviceptr * pointer, size_t *bytes, CUlibrary library, const char *object_name), pointer, bytes, library,
      object_name)
QUERY(cuLibraryGetManaged, library, object_name,
      (CUdeviceptr * pointer, size_t *bytes, CUlibrary library, const char *object_name), pointer, bytes, library,
      object_name)
QUERY(cuLibraryGetUnifiedFunction, library, object_name, (void **function, CUlibrary library, const char *object_name),
      function, library, object_name)

/* Drivers before 12.5 do not tell a kernel's library. */
static CUlibrary library_of(CUkernel kernel)
{
    CUlibrary library = NULL;

    if (!kernel || !facet_cuda_unhooked.cuKernelGetLibrary ||
        facet_cuda_unhooked.cuKernelGetLibrary(&library, kernel) != CUDA_SUCCESS)
        return NULL;
    return library;
}

CUresult facet_cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    struct watch watch;
    uint64_t key = note_key(kernel, (const void *)(uintptr_t)facet_cuda_owner(), NULL);

    if (is_loaded(key))
        return facet_cuda_driver.cuKernelGetFunction(function, kernel);
    begin_watch(&watch, false);
    CUresult result = facet_cuda_driver.cuKernelGetFunction(function, kernel);
    return finish_query(&watch, library_of(kernel), key, result);
}

CUresult facet_cuFuncLoad(CUfunction function)
{
    struct watch watch;

    begin_watch(&watch, false);
    return finish_query(&watch, NULL, 0, facet_cuda_driver.cuFuncLoad(function));
}

/* ---- functions that are loaded by their first launch ---- */

static struct watch launch_watch; /* used by the thread that has locked the contexts */

static bool is_lazy(void)
{
    int mode = CU_MODULE_EAGER_LOADING;

    return facet_cuda_unhooked.cuModuleGetLoadingMode &&
           facet_cuda_unhooked.cuModuleGetLoadingMode(&mode) == CUDA_SUCCESS && mode == CU_MODULE_LAZY_LOADING;
}

static uint64_t launch_key(CUfunction function)
{
    return note_key(function, (const void *)(uintptr_t)facet_cuda_owner(), NULL);
}

bool facet_cuda_code_launch_begin(CUfunction function)
{
    if (atomic_load_explicit(seen_entry(function), memory_order_relaxed) == function || !function)
        return false;
    if (is_loaded(launch_key(function)) || !is_lazy()) {
        atomic_store_explicit(seen_entry(function), function, memory_order_relaxed);
        return false;
    }
    begin_watch(&launch_watch, false);
    return true;
}

/* A refused charge does not fail the launch: it is included in the next charge. */
CUresult facet_cuda_code_launch_end(CUfunction function, CUresult result)
{
    if (result == CUDA_SUCCESS && charge_image(&launch_watch, &unattributed) == CUDA_SUCCESS)
        remember_key(launch_key(function));
    facet_cuda_contexts_unlock();
    return result;
}

void facet_cuda_code_context_ended(CUcontext context, uint32_t device, bool last)
{
    for (struct image **at = &images; *at;) {
        if ((*at)->context == context) {
            forget_image(at);
            continue;
        }
        if (last && !(*at)->context && (*at)->bytes[device]) {
            release_image_charge(*at, device);
            (*at)->bytes[device] = 0;
        }
        at = &(*at)->next;
    }
    unattributed.uncharged_bytes[device] = 0;
    forget_loaded();
    forget_seen();
}

void facet_cuda_code_forked(void)
{
    forget_seen();
    while (images) {
        struct image *image_of_parent = images;

        images = image_of_parent->next;
        free(image_of_parent);
    }
    unattributed = (struct image){.next = NULL};
}
