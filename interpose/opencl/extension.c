/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the lookup of functions by name, and command buffers. Never: changes the answer for another name. */
#include "extension.h"

#include <stdint.h>
#include <string.h>

#include "interpose/kit/estimate.h"
#include "launch.h"
#include "layer.h"

#define DEFINE_REAL(name) _Atomic(name##_fn) facet_cl_real_##name;
FACET_CL_EXTENSIONS(DEFINE_REAL)
#undef DEFINE_REAL

/* The hook of a name, or the driver's address. Some drivers also return addresses of core functions: hooked, too. */
static void *hook_or_address(const char *asked, void *real)
{
    if (!asked || !real)
        return real;
#define RETURN_EXTENSION_HOOK(name)                                                                                    \
    if (strcmp(asked, #name) == 0) {                                                                                   \
        atomic_store(&facet_cl_real_##name, (name##_fn)(uintptr_t)real);                                               \
        return (void *)(uintptr_t)facet_##name;                                                                        \
    }
    FACET_CL_EXTENSIONS(RETURN_EXTENSION_HOOK)
#undef RETURN_EXTENSION_HOOK
#define RETURN_CORE_HOOK(name)                                                                                         \
    if (strcmp(asked, #name) == 0)                                                                                     \
        return (void *)(uintptr_t)facet_##name;
    FACET_CL_HOOKS(RETURN_CORE_HOOK)
#undef RETURN_CORE_HOOK
    return real;
}

void *facet_clGetExtensionFunctionAddress(const char *name)
{
    return hook_or_address(name, facet_cl_target.clGetExtensionFunctionAddress(name));
}

void *facet_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
    return hook_or_address(name, facet_cl_target.clGetExtensionFunctionAddressForPlatform(platform, name));
}

/* A command buffer counts as one launch: its commands run only when the buffer is enqueued here. */
cl_int facet_clEnqueueCommandBufferKHR(cl_uint num_queues, cl_command_queue *queues, cl_command_buffer_khr buffer,
                                       cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    clEnqueueCommandBufferKHR_fn real = atomic_load(&facet_cl_real_clEnqueueCommandBufferKHR);
    struct facet_cl_launch launch;
    cl_int result = facet_cl_launch_begin(&launch, facet_estimate_key(buffer, 0), num_waits, event);

    if (result == CL_SUCCESS)
        result = real(num_queues, queues, buffer, num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queues && num_queues ? queues[0] : NULL, CL_FALSE, result);
}
