/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what library.h says. Never: unloads what it opened: the vendor's threads may run in it longer than we use it.
 */
#include "library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider_kit.h"

#define NVML_SONAME   "libnvidia-ml.so.1"
#define DRIVER_SONAME "libcuda.so.1"

/* Of a soname the linker's text begins with its name only when it was found nowhere. */
static bool is_absent(const char *place, const char *reason)
{
    size_t length = strlen(place);

    if (strchr(place, '/'))
        return access(place, F_OK) != 0;
    return strncmp(reason, place, length) == 0 && reason[length] == ':';
}

/* Opens the file that `variable` names, else the soname. */
static enum facet_status open_library(const char *variable, const char *soname, void **ret_library,
                                      struct facet_error *error)
{
    const char *named = getenv(variable), *place = named && *named ? named : soname;
    void *library = dlopen(place, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *reason = library ? NULL : dlerror();

    if (!library && !is_absent(place, reason ? reason : ""))
        return facet_kit_fail(error, FACET_IO, "%s cannot be loaded: %s", place, reason ? reason : "no reason");
    *ret_library = library;
    return FACET_OK;
}

enum facet_status cuda_nvml_status(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS:
        return FACET_OK;
    case NVML_ERROR_NOT_SUPPORTED:
    case NVML_ERROR_FUNCTION_NOT_FOUND:
    case NVML_ERROR_DEPRECATED:
        return FACET_UNSUPPORTED;
    case NVML_ERROR_NO_PERMISSION:
        return FACET_PERMISSION;
    case NVML_ERROR_GPU_IS_LOST:
    case NVML_ERROR_GPU_NOT_FOUND:
    case NVML_ERROR_RESET_REQUIRED:
        return FACET_DEVICE_LOST;
    case NVML_ERROR_NOT_FOUND:
        return FACET_NOT_FOUND;
    case NVML_ERROR_IN_USE:
    case NVML_ERROR_NOT_READY:
        return FACET_BUSY;
    case NVML_ERROR_MEMORY:
        return FACET_NO_MEMORY;
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
        return FACET_NO_SPACE;
    case NVML_ERROR_TIMEOUT:
        return FACET_TIMEOUT;
    case NVML_ERROR_UNINITIALIZED:
    case NVML_ERROR_INVALID_ARGUMENT:
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
        return FACET_INTERNAL;
    default:
        return FACET_IO;
    }
}

enum facet_status cuda_nvml_fail(const struct cuda_nvml *nvml, struct facet_error *error, const char *call,
                                 nvmlReturn_t result)
{
    return facet_kit_fail(error, cuda_nvml_status(result), "%s: %d, %s", call, result,
                          nvml->nvmlErrorString ? nvml->nvmlErrorString(result) : "no text for it");
}

/* Loaded, but of a driver that is not: there are no devices, as without the library. */
static bool no_driver(nvmlReturn_t result)
{
    return result == NVML_ERROR_DRIVER_NOT_LOADED || result == NVML_ERROR_LIBRARY_NOT_FOUND;
}

static enum facet_status start(struct cuda_nvml *nvml, struct facet_error *error)
{
#define CUDA_CHECK(symbol)                                                                                             \
    if (!nvml->symbol)                                                                                                 \
        return facet_kit_fail(error, FACET_ABI_MISMATCH, NVML_SONAME ": expected " #symbol);
    CUDA_NVML_NEEDED(CUDA_CHECK)
#undef CUDA_CHECK
    nvmlReturn_t result = nvml->nvmlInit_v2();
    if (no_driver(result))
        nvml->library = NULL;
    else if (result != NVML_SUCCESS)
        return cuda_nvml_fail(nvml, error, "nvmlInit_v2", result);
    return FACET_OK;
}

enum facet_status cuda_nvml_open(struct cuda_nvml *ret_nvml, struct facet_error *error)
{
    struct cuda_nvml opened = {0};
    enum facet_status status = open_library("FACET_CUDA_NVML", NVML_SONAME, &opened.library, error);

    if (status != FACET_OK || !opened.library)
        return status;
#define CUDA_RESOLVE(symbol) opened.symbol = (__typeof__(opened.symbol))dlsym(opened.library, #symbol);
    CUDA_NVML_NEEDED(CUDA_RESOLVE)
    CUDA_NVML_OPTIONAL(CUDA_RESOLVE)
#undef CUDA_RESOLVE
    status = start(&opened, error);
    if (status == FACET_OK)
        *ret_nvml = opened;
    return status;
}

void cuda_nvml_close(struct cuda_nvml *nvml)
{
    if (nvml->library)
        nvml->nvmlShutdown();
    *nvml = (struct cuda_nvml){0};
}

/* No context is made, so nothing is taken on the device. */
unsigned cuda_driver_units(const char *pci_address)
{
    void *library = NULL;
    CUdevice device;
    int units = 0;

    if (open_library("FACET_CUDA_DRIVER", DRIVER_SONAME, &library, NULL) != FACET_OK || !library)
        return 0;
    __typeof__(&cuInit) init = (__typeof__(init))dlsym(library, "cuInit");
    __typeof__(&cuDeviceGetByPCIBusId) find = (__typeof__(find))dlsym(library, "cuDeviceGetByPCIBusId");
    __typeof__(&cuDeviceGetAttribute) read = (__typeof__(read))dlsym(library, "cuDeviceGetAttribute");
    if (!init || !find || !read || init(0) != CUDA_SUCCESS || find(&device, pci_address) != CUDA_SUCCESS ||
        read(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) != CUDA_SUCCESS || units < 0)
        return 0;
    return (unsigned)units;
}
