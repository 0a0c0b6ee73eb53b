/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: our part of a thread's last error: many programs launch and then check only that.
 * Never: hides the runtime's own error.
 */
#include "launch.h"

/* A preloaded or dlopened library may use a word of static TLS; this one is read at every launch. */
static _Thread_local hipError_t ours __attribute__((tls_model("initial-exec")));

hipError_t facet_hip_refuse(void)
{
    ours = hipErrorNotInitialized;
    return ours;
}

static hipError_t take_error(hipError_t runtimes)
{
    hipError_t result = runtimes != hipSuccess ? runtimes : ours;

    ours = hipSuccess;
    return result;
}

hipError_t facet_hipGetLastError(void)
{
    return take_error(facet_hip_driver.hipGetLastError());
}

hipError_t facet_hipExtGetLastError(void)
{
    return take_error(facet_hip_driver.hipExtGetLastError());
}

hipError_t facet_hipPeekAtLastError(void)
{
    hipError_t result = facet_hip_driver.hipPeekAtLastError();

    return result != hipSuccess ? result : ours;
}
