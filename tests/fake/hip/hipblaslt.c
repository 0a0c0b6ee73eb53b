/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake hipBLASLt, which computes on the processor.
 *
 * Owns: hipBLASLt's own part: types, its version (FAKE_HIP_HIPBLASLT; default 100100), and the functions by which a
 * test reads the compute type of the last call and the number of live objects. The part that cuBLASLt has too is in
 * tests/fake/cuda/blaslt_fake.h. Never: is packaged.
 */
#include "vendor/hip/hipblaslt.h"

#include "math_fake.h"

#define BLASLT(name)        hipblasLt##name
#define BLASLT_NUMBER(name) HIPBLASLT_##name
#define BLAS_NUMBER(name)   HIPBLAS_##name
#define BLASLT_RESULT       hipblasStatus_t
#define BLASLT_COMPUTE      hipblasComputeType_t
#define BLASLT_TYPE         hipDataType
#define BLASLT_STREAM       hipStream_t
#define BLASLT_ALGORITHM                                                                                               \
    {                                                                                                                  \
        .data = {77}, .max_workspace_bytes = 1 << 20                                                                   \
    }

static int blaslt_type_of(hipDataType type, enum fake_type *ret_type)
{
    static const struct {
        hipDataType type;
        enum fake_type fake_type;
    } types[] = {{HIP_R_32F, FAKE_F32},
                 {HIP_R_16BF, FAKE_BF16},
                 {HIP_R_16F, FAKE_F16},
                 {HIP_R_8I, FAKE_INT8},
                 {HIP_R_32I, FAKE_INT32}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) {
            *ret_type = types[i].fake_type;
            return 1;
        }
    return 0;
}

/* hipBLASLt has no compute type without matrix cores, and none that rounds f32 to bf16 first. */
static int blaslt_has(hipblasComputeType_t compute, hipDataType factor, hipDataType result, hipDataType scale)
{
    if (compute == HIPBLAS_COMPUTE_32I)
        return factor == HIP_R_8I && result == HIP_R_32I && scale == HIP_R_32I;
    return compute == HIPBLAS_COMPUTE_32F && scale == HIP_R_32F && factor == result && factor != HIP_R_8I &&
           factor != HIP_R_32I;
}

#include "blaslt_fake.h"

hipblasStatus_t hipblasLtGetVersion(hipblasLtHandle_t handle, int *version)
{
    const char *version_text = getenv("FAKE_HIP_HIPBLASLT");

    if (!handle)
        return HIPBLAS_STATUS_NOT_INITIALIZED;
    *version = version_text ? (int)strtol(version_text, NULL, 10) : 100100;
    return HIPBLAS_STATUS_SUCCESS;
}

int fake_hipblas_compute(void)
{
    return last_compute;
}

void *fake_hipblas_stream(void)
{
    return last_stream;
}

int fake_hipblas_living(void)
{
    return live_objects;
}
