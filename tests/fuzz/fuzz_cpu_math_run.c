/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing the operations of facet-cpu-math.so: a shape that passes the checks runs to its end, with operands of
 * exactly the sizes that the checks compute. The input has a byte each for operation, type, flags and every number of
 * the shape. Never: computes for long: large shapes are left out.
 */
#include "math/engine.h"
#include "math_check.h"

#include "fuzz.h"

__attribute__((visibility("default"))) const struct cpu_math_library *facet_cpu_math_entry(void);

#define BYTES_MOST    (UINT64_C(1) << 18) /* of all operands that are run */
#define WORK_MOST     (UINT64_C(1) << 20) /* multiplications that are run */
#define ADDRESS_TOKEN UINT64_C(0x100)     /* address I is I times this until memory is allocated; shapes are smaller */
#define UNITS         2

/* How many addresses an operation of each kind begins with. */
static const uint32_t addresses[FACET_MATH_KINDS] = {3, 4, 2, 6, 4};

/* Whether an optional operand is left out: convolution's bias, or normalization's scale and bias. */
static bool is_operand_left_out(uint32_t operation, uint32_t index, uint8_t choice)
{
    bool convolution = operation == FACET_MATH_CONVOLUTION && index == 3;

    return (choice & 0x80) && (convolution || (operation == FACET_MATH_NORMALIZATION && (index == 2 || index == 3)));
}

static void read_operation(const uint8_t *data, size_t size, struct facet_math *ret_operation)
{
    uint8_t head[3] = {0};
    struct facet_math made = {.size = sizeof made};

    memcpy(head, data, size < 3 ? size : 3);
    made.operation = head[0] % FACET_MATH_KINDS;
    made.type = head[1] % FACET_MATH_TYPES;
    made.flags = (head[2] & 3u) | (head[2] & 0x7cu) << 6;
    uint32_t first = addresses[made.operation];
    for (uint32_t i = 0; i < first; i++)
        made.of.words[i] = is_operand_left_out(made.operation, i, head[2]) ? 0 : (i + 1) * ADDRESS_TOKEN;
    for (size_t i = 3; i < size && first + i - 3 < 32; i++)
        made.of.words[first + i - 3] = data[i];
    if (made.operation == FACET_MATH_GEMM)
        made.of.gemm.alpha = 1.0f;
    *ret_operation = made;
}

static uint64_t work_of(const struct facet_math *operation)
{
    const struct facet_convolution *c = &operation->of.convolution;
    const struct facet_attention *a = &operation->of.attention;
    const struct facet_gemm *g = &operation->of.gemm;

    switch (operation->operation) {
    case FACET_MATH_GEMM:
        return g->batch * g->m * g->n * g->k;
    case FACET_MATH_CONVOLUTION:
        return c->batch * c->out_channels * kit_math_outputs(c, 0) * kit_math_outputs(c, 1) *
               (c->in_channels / c->groups) * c->kernel[0] * c->kernel[1];
    case FACET_MATH_ATTENTION:
        return a->batch * a->heads * a->queries * a->keys * a->dimension;
    default:
        return 0; /* the sizes of the operands bound the work */
    }
}

static void run_operation(struct cpu_math_engine *engine, const struct facet_math *operation)
{
    const struct cpu_math_library *library = facet_cpu_math_entry();
    struct cpu_math_work *work = NULL;
    struct facet_error error = {0};

    FUZZ_ASSERT(library->prepare(engine, operation, &work, &error) == FACET_OK);
    FUZZ_ASSERT(work->phases > 0 && work->phase_ends[work->phases - 1] == work->groups);
    void *scratch = aligned_alloc(128, (work->kernel.scratch_fixed_bytes + 127) / 128 * 128 + 128);
    FUZZ_ASSERT(scratch);
    for (uint32_t i = 0; i < work->groups; i++) {
        const struct facet_host_group group = {.group_id = {i, 0, 0}, .scratch = scratch};

        work->kernel.run(&work, &group);
    }
    FUZZ_ASSERT(atomic_load(&work->status) == FACET_OK);
    free(scratch);
    library->release(work);
}

/* The features of this processor that matter, in the words of /proc/cpuinfo. */
static const char *processor_features(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni"))
        return " avx512_bf16 avx512_vnni ";
#endif
    return "";
}

static void place_and_run(struct facet_math *operation, const struct kit_math_operands *operands)
{
    void *memory[KIT_MATH_OPERANDS] = {0};
    struct cpu_math_engine *engine = NULL;
    struct facet_error error = {0};

    for (uint32_t i = 0; i < operands->count; i++) {
        memory[i] = malloc(operands->list[i].bytes);
        FUZZ_ASSERT(memory[i]);
        memset(memory[i], (int)(i + 1), operands->list[i].bytes);
        operation->of.words[operands->list[i].address / ADDRESS_TOKEN - 1] = (uint64_t)(uintptr_t)memory[i];
    }
    FUZZ_ASSERT(facet_cpu_math_entry()->open(processor_features(), UNITS, &engine, &error) == FACET_OK);
    run_operation(engine, operation);
    facet_cpu_math_entry()->close(engine);
    for (uint32_t i = 0; i < operands->count; i++)
        free(memory[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kit_math_operands operands;
    struct facet_math operation, taken;
    uint64_t bytes = 0;

    read_operation(data, size, &operation);
    if (kit_math_check(&operation, &taken, &operands, NULL) != FACET_OK)
        return 0;
    for (uint32_t i = 0; i < operands.count; i++)
        bytes += operands.list[i].bytes;
    if (bytes <= BYTES_MOST && work_of(&taken) <= WORK_MOST)
        place_and_run(&taken, &operands);
    return 0;
}
