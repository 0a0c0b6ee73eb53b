/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the errors of refused launches in the thread's last error, because many programs check only that after a
 * launch.
 * Never: hides the runtime's own error.
 */
#include "launch.h"

/* Read at every launch, so it is in static TLS, of which even a library opened with dlopen() gets a word. */
static _Thread_local hipError_t own_error __attribute__((tls_model("initial-exec")));

hipError_t facet_hip_refuse(void)
{
    own_error = hipErrorNotInitialized;
    return own_error;
}

static hipError_t take_error(hipError_t runtime_error)
{
    hipError_t result = runtime_error != hipSuccess ? runtime_error : own_error;

    own_error = hipSuccess;
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

    return result != hipSuccess ? result : own_error;
}
