/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: opening the driver, and translating its results. Never: unloads it: its threads may run after our last call.
 */
#include "driver.h"

#include <dlfcn.h>

#include "library_kit.h"
#include "provider_kit.h"

static const char *const library_names[] = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", NULL};

static const char *missing_symbol(const struct cuda_driver *driver)
{
#define CUDA_MISSING(name)                                                                                             \
    if (!driver->name)                                                                                                 \
        return #name;
    CUDA_NEEDED(CUDA_MISSING)
#undef CUDA_MISSING
    return NULL;
}

enum facet_status cuda_driver_open(struct cuda_driver *ret_driver, struct facet_error *error)
{
    struct cuda_driver driver = {0};
    enum facet_status status = facet_kit_library_open("FACET_CUDA_DRIVER", library_names, &driver.library, error);

    if (status != FACET_OK || !driver.library)
        return status;
#define CUDA_RESOLVE(name) *(void **)&driver.name = dlsym(driver.library, #name);
    CUDA_NEEDED(CUDA_RESOLVE)
    CUDA_MAPPING(CUDA_RESOLVE)
    CUDA_EXECUTING(CUDA_RESOLVE)
    CUDA_PARTITIONING(CUDA_RESOLVE)
    CUDA_AFFINITY(CUDA_RESOLVE)
    CUDA_SCRATCH(CUDA_RESOLVE)
    CUDA_CHECKPOINTING(CUDA_RESOLVE)
#undef CUDA_RESOLVE
    const char *absent = missing_symbol(&driver);
    if (absent)
        return facet_kit_fail(error, FACET_IO, "libcuda.so.1 has no %s: expected the driver of CUDA 11.0 or newer",
                              absent);
    CUresult result = driver.cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE)
        return FACET_OK;
    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(&driver, error, "cuInit", result);
    *ret_driver = driver;
    return FACET_OK;
}

#define CUDA_AND(name) &&driver->name
bool cuda_driver_maps(const struct cuda_driver *driver)
{
    return true CUDA_MAPPING(CUDA_AND);
}

bool cuda_driver_executes(const struct cuda_driver *driver)
{
    return true CUDA_EXECUTING(CUDA_AND);
}

bool cuda_driver_can_partition(const struct cuda_driver *driver)
{
    return true CUDA_PARTITIONING(CUDA_AND);
}

bool cuda_driver_has_affinity(const struct cuda_driver *driver)
{
    return true CUDA_AFFINITY(CUDA_AND);
}

bool cuda_driver_checkpoints(const struct cuda_driver *driver)
{
    return true CUDA_CHECKPOINTING(CUDA_AND);
}
#undef CUDA_AND

static enum facet_status status_of(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return FACET_NO_SPACE;
    case CUDA_ERROR_NOT_SUPPORTED:
        return FACET_UNSUPPORTED;
    case CUDA_ERROR_NOT_PERMITTED:
        return FACET_PERMISSION;
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED:
        /* No caller in this process can use the context any more. */
        return FACET_DEVICE_LOST;
    default:
        return FACET_IO;
    }
}

enum facet_status cuda_driver_fail(const struct cuda_driver *driver, struct facet_error *error, const char *call,
                                   CUresult result)
{
    const char *text = NULL;

    if (driver->cuGetErrorString(result, &text) != CUDA_SUCCESS || !text)
        text = "no text";
    return facet_kit_fail(error, status_of(result), "%s: %d, %.200s", call, result, text);
}
