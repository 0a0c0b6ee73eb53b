/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: HIP's libraries and variables for world.h. Never: has code. */
#include "tests/integration/cuda/world.h"
#include "vendor/hip/runtime.h"

const struct world_vendor world_vendor = {
    .address = VENDOR_HIP_ADDRESS "fa00000000cade00",
    .library = "libamdhip64.so.6",
    .state_variable = "FAKE_HIP_STATE",
    .real_variable = "FACET_REAL_HIP",
    .own_variable = "FACET_TEST_HIP_OURS",
    .fake_variable = "FACET_TEST_HIP_FAKE",
};
