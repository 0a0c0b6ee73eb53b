/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider `cpu`: the machine's own processors as one accelerator, which is not simulated.
 *
 * Owns: the entry point. Never: needs a driver, a vendor's runtime or the kernel compiler.
 *
 * Kernels are images of the target `host` (facet/host_kernel.h): code that runs in this process, at the addresses that
 * the memory table hands out. So a faulty kernel ends this process, and no other: the host runs the provider in a
 * process of its own. Kernels that are compiled with FACET_CHECK=1 are checked, and faulty ones reported by name.
 *
 * The device has no mode and no address: no interposer brings programs to it, so it can have no vGPUs (ADR 9).
 */
#include "cpu.h"

static const struct facet_provider provider = {
    .size = sizeof provider,
    .abi_major = FACET_PROVIDER_ABI_MAJOR,
    .abi_minor = FACET_PROVIDER_ABI_MINOR,
    .name = "cpu",
    .version = FACET_VERSION,
    .description = "This machine's processors, sharing work-groups fairly",
    .traits = FACET_PROVIDER_OWN_WORK,
    .device = &cpu_device_ops,
    .limit = &cpu_limit_ops,
    .metrics = &cpu_metrics_ops,
    .container = &cpu_container_ops,
    .memory = &cpu_memory_ops,
    .execution = &cpu_execution_ops,
    .math = &cpu_math_ops,
};

enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                       const struct facet_provider **ret_provider)
{
    return facet_kit_enter(host, &provider, ret_provider);
}
