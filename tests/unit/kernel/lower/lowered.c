/* SPDX-License-Identifier: Apache-2.0 */
/* Implements lowered.h with LLVM's just-in-time compiler. */
#include "lowered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>

#include "../orc.h"

const struct facet_lower_argument lowered_pointers[3] = {
    {FACET_ARGUMENT_GLOBAL, 0, 8}, {FACET_ARGUMENT_GLOBAL, 8, 8}, {FACET_ARGUMENT_GLOBAL, 16, 8}};
int input[WORDS * 8], output[WORDS * 8];

LLVMModuleRef lowered_parse(LLVMContextRef context, const char *text, const char *file)
{
    LLVMMemoryBufferRef buffer;
    LLVMModuleRef module;
    char *message = NULL;

    if (text)
        buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "test");
    else
        assert_int_equal(LLVMCreateMemoryBufferWithContentsOfFile(file, &buffer, &message), 0);
    assert_int_equal(LLVMParseIRInContext(context, buffer, &module, &message), 0);
    return module;
}

const char *lowered_processor;

static LLVMTargetMachineRef make_machine(const char *more)
{
    char *triple = LLVMGetDefaultTargetTriple(), *cpu = LLVMGetHostCPUName(), *host = LLVMGetHostCPUFeatures();
    char features[8192];
    LLVMTargetRef target;
    LLVMTargetMachineRef machine;
    char *message = NULL;

    assert_int_equal(LLVMGetTargetFromTriple(triple, &target, &message), 0);
    snprintf(features, sizeof(features), "%s%s%s", host, *more ? "," : "", more);
    machine = LLVMCreateTargetMachine(target, triple, lowered_processor ? lowered_processor : cpu, features,
                                      LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMDisposeMessage(triple);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(host);
    return machine;
}

enum facet_status lowered_make(LLVMModuleRef module, const struct mode *mode, struct facet_lower_kernel *kernel,
                               struct facet_error *error)
{
    LLVMTargetMachineRef machine = make_machine(mode->features);
    struct facet_lower_options options = {.machine = machine, .optimize = mode->optimize, .check = mode->check};
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    char *triple = LLVMGetTargetMachineTriple(machine);
    enum facet_status status;

    LLVMSetTarget(module, triple);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeMessage(triple);
    LLVMDisposeTargetData(layout);
    status = facet_lower_host(module, &options, kernel, 1, error);
    LLVMDisposeTargetMachine(machine);
    return status;
}

static void *find_symbol(const struct loaded *loaded, const char *symbol)
{
    LLVMOrcExecutorAddress address;

    assert_null(LLVMOrcLLJITLookup(loaded->jit, &address, symbol));
    return (void *)(uintptr_t)address;
}

static void make_visible(LLVMModuleRef module, const char *name)
{
    assert_non_null(LLVMGetNamedGlobal(module, name));
    LLVMSetVisibility(LLVMGetNamedGlobal(module, name), LLVMDefaultVisibility);
}

struct loaded lowered_load(const struct mode *mode, const char *file, const char *name,
                           const struct facet_lower_argument *arguments, const struct facet_host_check *functions)
{
    struct loaded loaded = {.kernel = {.name = name, .arguments = arguments}};
    LLVMContextRef context;
    LLVMOrcThreadSafeContextRef safe = orc_context(&context);
    LLVMModuleRef module = lowered_parse(context, NULL, file);
    struct facet_error error = {0};
    char symbol[64];

    if (lowered_make(module, mode, &loaded.kernel, &error) != FACET_OK)
        fail_msg("%s", error.message);
    if (mode->check) {
        make_visible(module, FACET_LOWER_CHECK);
        make_visible(module, FACET_LOWER_SITES);
    }
    assert_null(LLVMOrcCreateLLJIT(&loaded.jit, NULL));
    assert_null(LLVMOrcLLJITAddLLVMIRModule(loaded.jit, LLVMOrcLLJITGetMainJITDylib(loaded.jit),
                                            LLVMOrcCreateNewThreadSafeModule(module, safe)));
    snprintf(symbol, sizeof(symbol), FACET_LOWER_RUN "%s", name);
    loaded.run = (facet_host_run_func)(uintptr_t)find_symbol(&loaded, symbol);
    if (mode->check) {
        *(const struct facet_host_check **)find_symbol(&loaded, FACET_LOWER_CHECK) = functions;
        loaded.sites = find_symbol(&loaded, FACET_LOWER_SITES);
    }
    LLVMOrcDisposeThreadSafeContext(safe);
    return loaded;
}

void lowered_run(const struct loaded *loaded, const void *block, const uint32_t *grid, const uint32_t *size,
                 uint32_t dynamic_bytes, void *check)
{
    struct facet_host_kernel sizes = {.scratch_item_bytes = loaded->kernel.scratch_item_bytes,
                                      .scratch_fixed_bytes = loaded->kernel.scratch_fixed_bytes};
    size_t scratch = facet_host_scratch_bytes(&sizes, size[0] * size[1] * size[2]);
    size_t local = loaded->kernel.local_bytes + dynamic_bytes;
    struct facet_host_group group = {.dimensions = 3, .check = check};
    char *memory[2] = {aligned_alloc(128, (scratch / 128 + 2) * 128), aligned_alloc(128, (local / 128 + 2) * 128)};

    memset(memory[0], 0xa5, (scratch / 128 + 2) * 128);
    memset(memory[1], 0xa5, (local / 128 + 2) * 128);
    group.scratch = memory[0];
    group.local = memory[1];
    memcpy(group.grid, grid, sizeof(group.grid));
    memcpy(group.group_size, size, sizeof(group.group_size));
    group.global_size_x = grid[0] * size[0];
    for (group.group_id[2] = 0; group.group_id[2] < grid[2]; group.group_id[2]++)
        for (group.group_id[1] = 0; group.group_id[1] < grid[1]; group.group_id[1]++)
            for (group.group_id[0] = 0; group.group_id[0] < grid[0]; group.group_id[0]++)
                loaded->run(block, &group);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal((unsigned char)memory[0][scratch + i], 0xa5);
        assert_int_equal((unsigned char)memory[1][local + i], 0xa5);
    }
    free(memory[0]);
    free(memory[1]);
}

void lowered_unload(struct loaded *loaded)
{
    assert_null(LLVMOrcDisposeLLJIT(loaded->jit));
    loaded->jit = NULL;
}

void lowered_fill(uint32_t seed, int below)
{
    for (size_t i = 0; i < WORDS * 8; i++) {
        seed = seed * 1664525u + 1013904223u;
        input[i] = (int)(seed >> 8) % below;
        output[i] = UNWRITTEN;
    }
}
