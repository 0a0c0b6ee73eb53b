/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening NVML and translating its results. Never: unloads it: its threads may run after our last call. */
#include "library.h"

#include "library_kit.h"
#include "provider_kit.h"
#include <dlfcn.h>

#define NVML_SONAME "libnvidia-ml.so.1"

static const char *const library_names[] = {NVML_SONAME, "/usr/lib/wsl/lib/" NVML_SONAME, NULL};

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

/* Whether the library is loaded but the kernel's driver is not. Then there are no devices, as without the library. */
static bool no_driver(nvmlReturn_t result)
{
    return result == NVML_ERROR_DRIVER_NOT_LOADED || result == NVML_ERROR_LIBRARY_NOT_FOUND;
}

static enum facet_status start_nvml(struct cuda_nvml *nvml, struct facet_error *error)
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
    enum facet_status status = facet_kit_library_open("FACET_CUDA_NVML", library_names, &opened.library, error);

    if (status != FACET_OK || !opened.library)
        return status;
#define CUDA_RESOLVE(symbol) opened.symbol = (__typeof__(opened.symbol))dlsym(opened.library, #symbol);
    CUDA_NVML_NEEDED(CUDA_RESOLVE)
    CUDA_NVML_OPTIONAL(CUDA_RESOLVE)
#undef CUDA_RESOLVE
    status = start_nvml(&opened, error);
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
