/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the entry of facet-cpu-math.so, its engine, detecting the processor's features. Never: computes. */
#include <stdlib.h>
#include <string.h>

#include "math/engine.h"
#include "provider_kit.h"

__attribute__((visibility("default"))) const struct cpu_math_library *facet_cpu_math_entry(void);

static bool has_feature(const char *features, const char *feature)
{
    char word[32];

    snprintf(word, sizeof word, " %s ", feature);
    return strstr(features, word) != NULL;
}

/* Chooses the highest level all of whose features the processor has. Features are named as in /proc/cpuinfo. */
static const struct cpu_math_loops *choose_loops(const char *features)
{
#if defined(__x86_64__)
    static const char *const v3[] = {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"};
    static const char *const v4[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};

    for (size_t i = 0; i < sizeof v3 / sizeof v3[0]; i++)
        if (!has_feature(features, v3[i]))
            return &cpu_math_loops_v2;
    for (size_t i = 0; i < sizeof v4 / sizeof v4[0]; i++)
        if (!has_feature(features, v4[i]))
            return &cpu_math_loops_v3;
    return &cpu_math_loops_v4;
#else
    return &cpu_math_loops_v2;
#endif
}

/* With AVX-512 there are no microkernels: oneDNN's vectors are wider, and one packed B serves all tiles. */
static const struct cpu_math_microkernels *choose_microkernels(const struct cpu_math_loops *loops)
{
#if defined(__x86_64__)
    return loops == &cpu_math_loops_v3 ? &cpu_math_microkernels_v3 : NULL;
#else
    (void)loops;
    return NULL;
#endif
}

/* The lanes of a vector of 512 bits. 0 for narrower vectors: what partly filled ones cost was not measured for them. */
static uint32_t vector_lanes(const struct cpu_math_loops *loops)
{
#if defined(__x86_64__)
    return loops == &cpu_math_loops_v4 ? 16 : 0;
#else
    (void)loops;
    return 0;
#endif
}

static enum facet_status open_engine(const char *features, uint32_t units, struct cpu_math_engine **ret_engine,
                                     struct facet_error *error)
{
    struct cpu_math_engine *engine = calloc(1, sizeof *engine);

    if (!engine)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for the engine of oneDNN");
    if (dnnl_engine_create(&engine->dnnl, dnnl_cpu, 0) != dnnl_success) {
        free(engine);
        return facet_kit_fail(error, FACET_UNSUPPORTED, "oneDNN has no engine for this processor");
    }
    if (dnnl_stream_create(&engine->stream, engine->dnnl, dnnl_stream_default_flags) != dnnl_success) {
        dnnl_engine_destroy(engine->dnnl);
        free(engine);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a stream of oneDNN");
    }
    engine->loops = choose_loops(features);
    engine->microkernels = choose_microkernels(engine->loops);
    engine->units = units;
    engine->lanes = vector_lanes(engine->loops);
    engine->tensor_bf16 = has_feature(features, "avx512_bf16") || has_feature(features, "amx_bf16");
    engine->tensor_int8 =
        has_feature(features, "avx512_vnni") || has_feature(features, "avx_vnni") || has_feature(features, "amx_int8");
    pthread_mutex_init(&engine->lock, NULL);
    TAILQ_INIT(&engine->primitives);
    TAILQ_INIT(&engine->prepared_list);
    *ret_engine = engine;
    return FACET_OK;
}

static void close_engine(struct cpu_math_engine *engine)
{
    cpu_math_prepared_forget(engine);
    cpu_math_primitives_forget(engine);
    for (unsigned i = 0; i < CPU_MATH_SPARE_MEMORIES; i++)
        free(engine->spare_memories[i].memory);
    dnnl_stream_destroy(engine->stream);
    dnnl_engine_destroy(engine->dnnl);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
}

static void report_support(const struct cpu_math_engine *engine, struct facet_math_support *ret_support)
{
    const uint32_t floats = 1u << FACET_MATH_F32 | 1u << FACET_MATH_BF16 | 1u << FACET_MATH_F16;
    const uint32_t all = floats | 1u << FACET_MATH_INT8;
    const dnnl_version_t *version = dnnl_version();

    ret_support->types[FACET_MATH_GEMM] = all;
    ret_support->types[FACET_MATH_CONVOLUTION] = all;
    ret_support->types[FACET_MATH_ACTIVATION] = all;
    ret_support->types[FACET_MATH_NORMALIZATION] = floats;
    ret_support->types[FACET_MATH_ATTENTION] = floats;
    ret_support->tensor_types =
        (engine->tensor_bf16 ? 1u << FACET_MATH_BF16 : 0) | (engine->tensor_int8 ? 1u << FACET_MATH_INT8 : 0);
    ret_support->mixed = engine->tensor_bf16;
    snprintf(ret_support->library, sizeof ret_support->library, "oneDNN %d.%d.%d", version->major, version->minor,
             version->patch);
}

/* A type for which there are no tensor units is multiplied as f32; with FACET_MATH_NO_TENSOR, every type is. */
enum cpu_math_product_type cpu_math_product_type_of(const struct cpu_math_engine *engine, uint32_t type, uint32_t flags)
{
    bool bf16 = type == FACET_MATH_BF16 || (type == FACET_MATH_F32 && (flags & FACET_MATH_MIXED));

    if (flags & FACET_MATH_NO_TENSOR)
        return CPU_MATH_PRODUCT_TYPE_F32;
    if (type == FACET_MATH_INT8)
        return engine->tensor_int8 ? CPU_MATH_PRODUCT_TYPE_INT8 : CPU_MATH_PRODUCT_TYPE_F32;
    return bf16 && engine->tensor_bf16 ? CPU_MATH_PRODUCT_TYPE_BF16 : CPU_MATH_PRODUCT_TYPE_F32;
}

const char *cpu_math_product_type_name(enum cpu_math_product_type product_type)
{
    static const char *const names[] = {"f32", "bf16", "int8", "int16"};

    return names[product_type];
}

static enum facet_status prepare_operation(struct cpu_math_engine *engine, const struct facet_math *operation,
                                           struct cpu_math_work **ret_work, struct facet_error *error)
{
    static const cpu_math_prepare_func prepares[FACET_MATH_KINDS] = {
        cpu_math_prepare_gemm, cpu_math_prepare_convolution, cpu_math_prepare_activation,
        cpu_math_prepare_normalization, cpu_math_prepare_attention};
    struct cpu_math_prepared *prepared = cpu_math_prepared_take(engine, operation);
    enum facet_status status =
        prepared ? FACET_OK : prepares[operation->operation](engine, operation, &prepared, error);

    if (status != FACET_OK)
        return status;
    prepared->operation = *operation;
    *ret_work = &prepared->work;
    return FACET_OK;
}

static void release_work(struct cpu_math_work *work)
{
    struct cpu_math_prepared *prepared = (struct cpu_math_prepared *)work;

    if (!cpu_math_prepared_keep(prepared))
        cpu_math_prepared_free(prepared);
}

const struct cpu_math_library *facet_cpu_math_entry(void)
{
    static const struct cpu_math_library library = {
        .abi = CPU_MATH_ABI,
        .open = open_engine,
        .close = close_engine,
        .support = report_support,
        .prepare = prepare_operation,
        .release = release_work,
    };

    return &library;
}
