/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that the device memory of modules and libraries is charged, and given back. Never: measures time. */
#include <stdlib.h>
#include <string.h>

#include "machine.h"

#define CODE_BYTES    (64 * KIB) /* of each function, by the fake (execution_code.c) */
#define GLOBALS_BYTES (8 * MIB)  /* the 8388608 bytes of `image` */

static const char image[] = "FAKE-CUDA\n@global table 8388608\nfirst 1000\nsecond 1000\n";

/* The charge equals the memory that the driver has taken. */
static void check_code_charged(int line, uint64_t code)
{
    if (fake_used_of_kind(0, FAKE_MODULE) != code || machine_charged(0) != MACHINE_CONTEXT + code)
        fprintf(stderr, "the check in line %d fails:\n", line);
    CHECK_EQUAL(fake_used_of_kind(0, FAKE_MODULE), code);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + code);
}
#define CHECK_CODE_CHARGED(code) check_code_charged(__LINE__, code)

static void enter_role(void)
{
    role_open();
    role_enter(0);
    CHECK_CODE_CHARGED(0);
}

static void role_lazy_loading(void *argument)
{
    CUfunction function;
    CUmodule module, other;
    CUdeviceptr pointer;
    size_t bytes;

    enter_role();
    CHECK_EQUAL(cuda.cuModuleLoadData(&module, image), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(0);
    CHECK_EQUAL(cuda.cuModuleGetFunction(&function, module, "first"), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + CODE_BYTES);
    CHECK_EQUAL(cuda.cuModuleGetFunction(&function, module, "first"), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + CODE_BYTES);
    CHECK_EQUAL(cuda.cuModuleGetGlobal_v2(&pointer, &bytes, module, "table"), CUDA_SUCCESS);
    CHECK_EQUAL(bytes, GLOBALS_BYTES);
    CHECK_EQUAL(cuda.cuMemsetD8_v2(pointer, 1, bytes), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + CODE_BYTES);
    CHECK_EQUAL(cuda.cuModuleLoadDataEx(&other, image, 0, NULL, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuModuleGetGlobal_v2(&pointer, NULL, other, "table"), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(2 * GLOBALS_BYTES + CODE_BYTES);
    CHECK_EQUAL(cuda.cuModuleUnload(module), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(GLOBALS_BYTES);
    CHECK_EQUAL(cuda.cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(cuda.cuModuleGetFunction(&function, other, "first"),
                CUDA_SUCCESS); /* the other module has a function of this name, too */
    CHECK_CODE_CHARGED(GLOBALS_BYTES + CODE_BYTES);
    CHECK_EQUAL(cuda.cuModuleUnload(other), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(0);
}

static void test_a_module_is_charged_as_it_is_loaded(void **state)
{
    machine_run(role_lazy_loading, GIB);
}

static void role_eager_loading(void *argument)
{
    CUmodule modules[3];
    CUfunction function;
    CUcontext second;

    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    enter_role();
    CHECK_EQUAL(cuda.cuModuleLoadData(&modules[0], image), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    CHECK_EQUAL(cuda.cuModuleLoadFatBinary(&modules[1], "\x50\xed\x55\xba"), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 3 * CODE_BYTES);
    CHECK_EQUAL(cuda.cuModuleGetFunction(&function, modules[1], "anything"), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 3 * CODE_BYTES);
    CHECK_EQUAL(cuda.cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuModuleLoadData(&modules[2], image), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 2 * MACHINE_CONTEXT + 2 * GLOBALS_BYTES + 5 * CODE_BYTES);
    CHECK_EQUAL(cuda.cuCtxDestroy_v2(second), CUDA_SUCCESS); /* unloads its module, too */
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 3 * CODE_BYTES);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(fake_used(0), 0);
    CHECK_EQUAL(cuda.cuModuleUnload(modules[0]), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_EQUAL(machine_charged(0), 0);
}

static void test_the_end_of_a_context_unloads_its_modules(void **state)
{
    machine_run(role_eager_loading, GIB);
}

static void role_library_code(void *argument)
{
    CUlibrary library;
    CUfunction function;
    CUkernel first, second;
    CUdeviceptr pointer;

    enter_role();
    CHECK_EQUAL(cuda.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuLibraryGetKernel(&first, library, "first"), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuLibraryGetKernel(&second, library, "second"), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(0);
    CHECK_EQUAL(cuda.cuLibraryGetGlobal(&pointer, NULL, library, "table"), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(GLOBALS_BYTES);
    CHECK_EQUAL(cuda.cuKernelGetFunction(&function, first), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + CODE_BYTES);
    CHECK_EQUAL(cuda.cuKernelGetFunction(&function, first), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuFuncLoad((CUfunction)second), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    CHECK_EQUAL(cuda.cuLibraryUnload(library), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 0);
    role_enter(0);
    CHECK_CODE_CHARGED(0);
}

/* Less common lookups load the same code, and only once. */
static void role_other_lookups(void *argument)
{
    CUlibrary library;
    CUmodule module;
    CUdeviceptr pointer;
    CUdeviceptr_v1 low;
    unsigned low_bytes;
    size_t bytes;
    void *function;

    enter_role();
    CHECK_EQUAL(cuda.cuModuleLoadData(&module, image), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(cuda.cuModuleGetGlobal(&low, &low_bytes, module, "table"), CUDA_SUCCESS);
        CHECK_EQUAL(low_bytes, GLOBALS_BYTES);
        CHECK_CODE_CHARGED(GLOBALS_BYTES);
    }
    CHECK_EQUAL(cuda.cuModuleGetGlobal(&low, &low_bytes, module, "no"), CUDA_ERROR_NOT_FOUND);
    CHECK_EQUAL(cuda.cuModuleUnload(module), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(cuda.cuLibraryGetManaged(&pointer, &bytes, library, "table"), CUDA_SUCCESS);
        CHECK_EQUAL(bytes, GLOBALS_BYTES);
        CHECK_CODE_CHARGED(GLOBALS_BYTES);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(cuda.cuLibraryGetUnifiedFunction(&function, library, "first"), CUDA_SUCCESS);
        CHECK_CODE_CHARGED(GLOBALS_BYTES + CODE_BYTES);
    }
    CHECK_EQUAL(cuda.cuLibraryGetUnifiedFunction(NULL, library, "second"), CUDA_ERROR_INVALID_VALUE);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + CODE_BYTES);
    CHECK_EQUAL(cuda.cuLibraryUnload(library), CUDA_SUCCESS);
}

static void test_a_library_is_charged_for_code_and_variables_that_are_looked_up(void **state)
{
    machine_run(role_library_code, GIB);
    machine_run(role_other_lookups, GIB);
}

/* The quota has room for the context, and 4 MiB. `argument`: modules are loaded eagerly. */
static void role_code_over_quota(void *argument)
{
    CUdeviceptr pointer;
    CUfunction function;
    CUmodule module;

    if (argument)
        setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    enter_role();
    if (argument) {
        CHECK_EQUAL(cuda.cuModuleLoadData(&module, image), CUDA_ERROR_OUT_OF_MEMORY);
        CHECK_CODE_CHARGED(0); /* the module was loaded and unloaded again */
        return;
    }
    CHECK_EQUAL(cuda.cuModuleLoadData(&module, image), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuModuleGetFunction(&function, module, "first"), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuModuleGetFunction(&function, module, "first"), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT);
    CHECK_EQUAL(cuda.cuModuleUnload(module), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(0);
    CHECK_EQUAL(cuda.cuModuleLoadData(&module, "FAKE-CUDA\nfirst 1000\n"),
                CUDA_SUCCESS); /* this module is not charged for the refused one */
    CHECK_EQUAL(cuda.cuModuleGetFunction(&function, module, "first"), CUDA_SUCCESS);
    CHECK_CODE_CHARGED(CODE_BYTES);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 3 * MIB), CUDA_ERROR_OUT_OF_MEMORY); /* takes 4 MiB */
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 2 * MIB), CUDA_SUCCESS);
}

static void test_a_module_that_the_quota_has_no_room_for_is_refused(void **state)
{
    machine_run(role_code_over_quota, MACHINE_CONTEXT + 4 * MIB);
    machine_make(1, &(uint64_t){MACHINE_CONTEXT + 4 * MIB}, "300M");
    machine_wait(machine_start(role_code_over_quota, &machine, true));
    machine_remove();
}

static void role_context_limits(void *argument)
{
    enter_role();
    CHECK_EQUAL(cuda.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 72 * MIB), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + 64 * MIB); /* the context's cost includes a heap of 8 MiB */
    CHECK_EQUAL(cuda.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuCtxSetLimit(77, 1), CUDA_ERROR_INVALID_VALUE); /* no such limit */
    CHECK_EQUAL(machine_charged(0), fake_used(0));
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 0);
}

static void test_memory_that_a_context_keeps_for_its_kernels_is_charged(void **state)
{
    machine_run(role_context_limits, GIB);
}

/* A kernel of a library may be launched without a function: the launch loads it, and the context is charged. */
static void role_launch_of_a_library_kernel(void *argument)
{
    CUlibrary library;
    CUkernel first;

    enter_role();
    CHECK_EQUAL(cuda.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuLibraryGetKernel(&first, library, "first"), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQUAL(cuda.cuLaunchKernel((CUfunction)first, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), CUDA_SUCCESS);
        CHECK_CODE_CHARGED(GLOBALS_BYTES + CODE_BYTES);
    }
    CHECK_EQUAL(cuda.cuLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 0);
}

static void test_code_loaded_by_a_first_launch_is_charged(void **state)
{
    machine_run(role_launch_of_a_library_kernel, GIB);
}

/* The driver's own error comes back, and nothing is charged. */
static void role_wrong_arguments(void *argument)
{
    CUfunction function;
    CUmodule module = NULL;
    CUlibrary library = NULL;

    role_open();
    CHECK_EQUAL(cuda.cuModuleLoadData(&module, image), CUDA_ERROR_INVALID_CONTEXT);
    role_enter(0);
    CHECK_EQUAL(cuda.cuModuleLoadData(NULL, image), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuModuleLoadData(&module, "no image"), CUDA_ERROR_INVALID_IMAGE);
    CHECK_EQUAL(cuda.cuModuleLoad(&module, "/nonexistent"), CUDA_ERROR_NOT_FOUND);
    CHECK_EQUAL(cuda.cuModuleUnload(NULL), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(cuda.cuModuleGetFunction(&function, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(cuda.cuLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuLibraryLoadFromFile(&library, NULL, NULL, NULL, 0, NULL, NULL, 0), CUDA_ERROR_NOT_FOUND);
    CHECK_EQUAL(cuda.cuLibraryGetModule(&module, NULL), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(cuda.cuKernelGetFunction(&function, NULL), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(cuda.cuFuncLoad(NULL), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CODE_CHARGED(0);
}

static void test_wrong_arguments_get_the_drivers_own_error(void **state)
{
    machine_run(role_wrong_arguments, GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_module_is_charged_as_it_is_loaded),
        cmocka_unit_test(test_the_end_of_a_context_unloads_its_modules),
        cmocka_unit_test(test_a_library_is_charged_for_code_and_variables_that_are_looked_up),
        cmocka_unit_test(test_a_module_that_the_quota_has_no_room_for_is_refused),
        cmocka_unit_test(test_memory_that_a_context_keeps_for_its_kernels_is_charged),
        cmocka_unit_test(test_code_loaded_by_a_first_launch_is_charged),
        cmocka_unit_test(test_wrong_arguments_get_the_drivers_own_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
