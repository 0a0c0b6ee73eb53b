/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: CUDA's libraries and variables for world.h. Never: has code. */
#include "world.h"

const struct world_vendor world_vendor = {
    .address = "GPU-66616b65-2d67-7075-0000-000000000001",
    .library = "libcuda.so.1",
    .state_variable = "FAKE_CUDA_STATE",
    .real_variable = "FACET_REAL_CUDA",
    .own_variable = "FACET_TEST_CUDA_OURS",
    .fake_variable = "FACET_TEST_CUDA_FAKE",
};
