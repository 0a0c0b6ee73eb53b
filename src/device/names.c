/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the names of kinds and healths of devices, for people and in JSON. Never: fails on an unknown value. */
#include <facet/device.h>

const char *facet_device_kind_name(uint32_t kind)
{
    static const char *const names[] = {
        [FACET_DEVICE_OTHER] = "other",
        [FACET_DEVICE_CPU] = "cpu",
        [FACET_DEVICE_GPU] = "gpu",
        [FACET_DEVICE_NPU] = "npu",
        [FACET_DEVICE_ACCELERATOR] = "accelerator",
    };

    return names[kind < sizeof names / sizeof names[0] ? kind : FACET_DEVICE_OTHER];
}

const char *facet_health_name(uint32_t health)
{
    static const char *const names[] = {
        [FACET_HEALTH_UNKNOWN] = "unknown",
        [FACET_HEALTH_OK] = "ok",
        [FACET_HEALTH_DEGRADED] = "degraded",
        [FACET_HEALTH_FAILED] = "failed",
    };

    return names[health < sizeof names / sizeof names[0] ? health : FACET_HEALTH_UNKNOWN];
}
