/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: opening the HIP runtime, and translating its results. Never: unloads it: its threads may run after our last
 * call.
 */
#include "runtime.h"

#include "library_kit.h"

static const char *const library_names[] = {"libamdhip64.so.7",
                                            "libamdhip64.so.6",
                                            "libamdhip64.so.5",
                                            "/opt/rocm/lib/libamdhip64.so.7",
                                            "/opt/rocm/lib/libamdhip64.so.6",
                                            "/opt/rocm/lib/libamdhip64.so.5",
                                            NULL};

static const char *missing_symbol(const struct rocm_runtime *runtime)
{
#define ROCM_MISSING(name)                                                                                             \
    if (!runtime->name)                                                                                                \
        return #name;
    ROCM_NEEDED(ROCM_MISSING)
#undef ROCM_MISSING
    return NULL;
}

void rocm_runtime_open(struct rocm_runtime *ret_runtime)
{
    struct rocm_runtime runtime = {0};
    struct facet_error reason = {0};

    if (facet_kit_library_open("FACET_ROCM_HIP", library_names, &runtime.library, &reason) != FACET_OK)
        FACET_KIT_TEXT(runtime.error, reason.message);
    if (runtime.library) {
#define ROCM_RESOLVE(name) *(void **)&runtime.name = dlsym(runtime.library, #name);
        ROCM_NEEDED(ROCM_RESOLVE)
        ROCM_MAPPING(ROCM_RESOLVE)
        ROCM_EXECUTING(ROCM_RESOLVE)
        ROCM_SCRATCH(ROCM_RESOLVE)
        ROCM_MASKING(ROCM_RESOLVE)
#undef ROCM_RESOLVE
        const char *absent = missing_symbol(&runtime);
        if (absent) {
            snprintf(runtime.error, sizeof runtime.error,
                     "libamdhip64.so has no %s: expected the runtime of ROCm 5.2 "
                     "or newer",
                     absent);
            runtime.library = NULL;
        }
    }
    *ret_runtime = runtime;
}

#define ROCM_AND(name) &&runtime->name
bool rocm_runtime_maps(const struct rocm_runtime *runtime)
{
    return true ROCM_MAPPING(ROCM_AND);
}

bool rocm_runtime_executes(const struct rocm_runtime *runtime)
{
    return true ROCM_EXECUTING(ROCM_AND);
}
#undef ROCM_AND

static enum facet_status status_of(hipError_t result)
{
    switch (result) {
    case hipErrorOutOfMemory:
        return FACET_NO_SPACE;
    case hipErrorNotSupported:
        return FACET_UNSUPPORTED;
    case hipErrorNoDevice:
    case hipErrorInvalidDevice:
    case hipErrorECCNotCorrectable:
    case hipErrorIllegalAddress:
    case hipErrorLaunchFailure:
    case hipErrorContextIsDestroyed:
    case hipErrorDeinitialized:
        /* No caller in this process can use the device any more. */
        return FACET_DEVICE_LOST;
    default:
        return FACET_IO;
    }
}

enum facet_status rocm_runtime_fail(const struct rocm_runtime *runtime, struct facet_error *error, const char *call,
                                    hipError_t result)
{
    const char *text = runtime->hipGetErrorString(result);

    return facet_kit_fail(error, status_of(result), "%s: %d, %.200s", call, result, text ? text : "no text");
}
