/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that the device memory of code objects and managed variables is charged, and given back.
 * Never: measures time.
 */
#include <ftw.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "machine.h"

#define CODE_BYTES    (64 * KIB) /* of each function; FAKE_HIP_CODE sets it */
#define GLOBALS_BYTES (8 * MIB)  /* the 8388608 bytes of `image` */
#define MANAGED_BYTES (3 * MIB)

static const char image[] = "FAKE-HIP\n@global table 8388608\nfirst 1000\nsecond 1000\n";
static const struct vendor_hip_fat_binary binary = {.magic = VENDOR_HIP_FAT_BINARY, .version = 1, .binary = image};
static char first, second, table;
static char root[96];

/* The charge equals the memory that the runtime has taken. */
static void check_code_charged(int line, uint64_t code)
{
    if (fake_used_of_kind(0, FAKE_MODULE) != code || machine_charged(0) != MACHINE_BEGIN + code)
        fprintf(stderr, "the check in line %d fails:\n", line);
    CHECK_EQUAL(fake_used_of_kind(0, FAKE_MODULE), code);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + code);
}
#define CHECK_CODE_CHARGED(code) check_code_charged(__LINE__, code)

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    return remove(path);
}

/* Runs a role with the compute driver's files, which show the memory of each process; then `argument` is not NULL.
 * Without the files, the interposer measures the whole device's memory. */
static void run_role(void (*role)(void *argument), uint64_t limit, bool with_files)
{
    char path[128];

    snprintf(root, sizeof root, "/tmp/facet-hip-kernel-XXXXXX");
    assert_non_null(mkdtemp(root));
    for (const char *const *part = (const char *const[]){"proc", "proc/self", "proc/self/ns", NULL}; *part; part++) {
        snprintf(path, sizeof path, "%s/%s", root, *part);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    snprintf(path, sizeof path, "%s/proc/self/ns/pid", root);
    /* the files count only in the initial PID namespace, which has the first number */
    assert_int_equal(symlink(with_files ? "pid:[4026531836]" : "pid:[4026532841]", path), 0);
    setenv("FACET_ROCM_ROOT", root, 1);
    setenv("FAKE_HIP_KFD", root, 1);
    setenv("FAKE_HIP_CODE", "64K", 1);
    machine_make(1, &limit, "300M");
    machine_wait(machine_start(role, with_files ? root : NULL, true));
    machine_remove();
    unsetenv("FACET_ROCM_ROOT");
    unsetenv("FAKE_HIP_KFD");
    unsetenv("FAKE_HIP_CODE");
    nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void run_with_and_without_files(void (*role)(void *argument), uint64_t limit)
{
    run_role(role, limit, true);
    run_role(role, limit, false);
}

static void role_modules(void *argument)
{
    hipModule_t modules[2];
    hipFunction_t function;

    role_open();
    CHECK_EQUAL(hip.hipModuleLoadData(&modules[0], image), hipSuccess);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    CHECK_EQUAL(hip.hipModuleGetFunction(&function, modules[0], "first"), hipSuccess);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    CHECK_EQUAL(hip.hipModuleLoadDataEx(&modules[1], image, 0, NULL, NULL), hipSuccess);
    CHECK_CODE_CHARGED(2 * (GLOBALS_BYTES + 2 * CODE_BYTES));
    CHECK_EQUAL(hip.hipModuleUnload(modules[0]), hipSuccess);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    CHECK(hip.hipModuleUnload(modules[0]) != hipSuccess);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    CHECK_EQUAL(hip.hipDeviceReset(), hipSuccess);
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(fake_used(0), 0);
    CHECK_EQUAL(hip.hipModuleLoadFatBinary(&modules[0], image), hipSuccess);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
}

static void test_a_module_is_charged_until_it_is_unloaded(void **state)
{
    run_with_and_without_files(role_modules, GIB);
}

static void role_code_over_quota(void *argument)
{
    hipLibrary_t library;
    hipKernel_t kernel;
    hipModule_t module;

    role_open();
    CHECK_EQUAL(hip.hipModuleLoadData(&module, image), hipErrorOutOfMemory);
    CHECK_CODE_CHARGED(0); /* the module was loaded and unloaded again */
    CHECK_EQUAL(hip.hipLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), hipSuccess);
    CHECK_EQUAL(hip.hipLibraryGetKernel(&kernel, library, "first"), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipLibraryGetKernel(&kernel, library, "first"), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipLibraryUnload(library), hipSuccess);
    CHECK_CODE_CHARGED(0);
    CHECK_EQUAL(hip.hipModuleLoadData(&module, "FAKE-HIP\nfirst 1000\n"), hipSuccess);
    CHECK_CODE_CHARGED(CODE_BYTES);
}

static void test_a_module_that_the_quota_has_no_room_for_is_refused(void **state)
{
    run_with_and_without_files(role_code_over_quota, MACHINE_BEGIN + 4 * MIB);
}

static void role_library_code(void *argument)
{
    hipLibrary_t library;
    hipKernel_t kernel;

    role_open();
    CHECK_EQUAL(hip.hipLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), hipSuccess);
    CHECK_CODE_CHARGED(0);
    CHECK_EQUAL(hip.hipLibraryGetKernel(&kernel, library, "first"), hipSuccess);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    CHECK_EQUAL(hip.hipLibraryGetKernel(&kernel, library, "second"), hipSuccess);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    CHECK_EQUAL(hip.hipLibraryUnload(library), hipSuccess);
    CHECK_CODE_CHARGED(0);
}

static void role_library_of_a_file(void *argument)
{
    hipLibrary_t library;
    unsigned count;
    char path[128];

    snprintf(path, sizeof path, "%s/image", root);
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(image, file) >= 0 && fclose(file) == 0);
    role_open();
    CHECK_EQUAL(hip.hipLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0), hipSuccess);
    CHECK_CODE_CHARGED(0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(hip.hipLibraryGetKernelCount(&count, library), hipSuccess);
        CHECK_EQUAL(count, 2);
        CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    }
    CHECK(hip.hipLibraryGetKernelCount(&count, NULL) != hipSuccess);
    CHECK_EQUAL(hip.hipLibraryUnload(library), hipSuccess);
    CHECK_CODE_CHARGED(0);
}

static void test_a_library_is_charged_at_its_first_query(void **state)
{
    run_with_and_without_files(role_library_code, GIB);
    run_with_and_without_files(role_library_of_a_file, GIB);
}

static void **register_kernels(void)
{
    static char names[2][8] = {"first", "second"};
    void **modules = hip.__hipRegisterFatBinary(&binary);

    hip.__hipRegisterFunction(modules, &first, names[0], names[0], 0, NULL, NULL, NULL, NULL, NULL);
    hip.__hipRegisterFunction(modules, &second, names[1], names[1], 0, NULL, NULL, NULL, NULL, NULL);
    return modules;
}

static void role_launches(void *argument)
{
    const dim3 one = {1, 1, 1};
    hipFunction_t function;

    role_open();
    void **modules = register_kernels();
    CHECK_EQUAL(machine_charged(0), 0);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQUAL(hip.hipLaunchKernel(i == 1 ? &second : &first, one, one, NULL, 0, NULL), hipSuccess);
        CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    }
    CHECK_EQUAL(hip.hipDeviceReset(), hipSuccess);
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(hip.hipGetFuncBySymbol(&function, &first), hipSuccess);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    CHECK_EQUAL(hip.hipLaunchKernel(&first, one, one, NULL, 0, NULL), hipSuccess);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    CHECK(hip.hipLaunchKernel(&function, one, one, NULL, 0, NULL) != hipSuccess);
    CHECK_EQUAL(hip.hipStreamSynchronize(NULL), hipSuccess);
    hip.__hipUnregisterFatBinary(modules);
    CHECK_EQUAL(fake_used_of_kind(0, FAKE_MODULE), 0);
    CHECK_EQUAL(
        machine_charged(0),
        MACHINE_BEGIN +
            (argument ? 0 : GLOBALS_BYTES + 2 * CODE_BYTES)); /* without files, the freed memory may be a neighbour's */
}

static void test_code_loaded_by_a_first_launch_is_charged(void **state)
{
    run_with_and_without_files(role_launches, GIB);
}

/* Makes a query of a kernel or a variable. Each query loads the image, but only once. */
static hipError_t call_lookup(int lookup)
{
    int blocks = 0, block = 0;
    void *address = NULL;
    size_t size = 0;

    switch (lookup) {
    case 0:
        return hip.hipFuncGetAttributes(NULL, &first);
    case 1:
        return hip.hipGetSymbolAddress(&address, &table);
    case 2:
        return hip.hipGetSymbolSize(&size, &table);
    case 3:
        return hip.hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &first, 64, 0);
    case 4:
        return hip.hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, &second, 64, 0, 0);
    default:
        return hip.hipOccupancyMaxPotentialBlockSize(&blocks, &block, &second, 0, 0);
    }
}

static void role_each_lookup(void *argument)
{
    static char name[] = "table";

    role_open();
    for (int lookup = 0; lookup < 6; lookup++) {
        hip.__hipRegisterVar(register_kernels(), &table, name, name, 0, GLOBALS_BYTES, 0, 0);
        for (int i = 0; i < 3; i++) {
            CHECK_EQUAL(call_lookup(i ? lookup : (lookup + 1) % 6), hipSuccess);
            CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
        }
        CHECK_EQUAL(hip.hipDeviceReset(), hipSuccess);
        CHECK_EQUAL(machine_charged(0), 0);
    }
}

static void test_code_loaded_by_a_query_is_charged(void **state)
{
    run_with_and_without_files(role_each_lookup, GIB);
}

/* A kernel runs although the quota has no room for its code. The code is charged with a later launch, once there is
 * room. */
static void role_charge_above_the_quota(void *argument)
{
    const dim3 one = {1, 1, 1};
    hipModule_t module;
    void *pointer;

    role_open();
    CHECK_EQUAL(hip.hipMalloc(&pointer, 3 * MIB), hipSuccess);
    register_kernels();
    CHECK_EQUAL(hip.hipLaunchKernel(&first, one, one, NULL, 0, NULL), hipSuccess);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + 3 * MIB);
    CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
    CHECK_EQUAL(hip.hipLaunchKernel(&second, one, one, NULL, 0, NULL), hipSuccess);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
    CHECK_EQUAL(hip.hipModuleLoadData(&module, image), hipErrorOutOfMemory);
    CHECK_CODE_CHARGED(GLOBALS_BYTES + 2 * CODE_BYTES);
}

static void test_a_charge_beyond_the_quota_is_tried_again(void **state)
{
    run_with_and_without_files(role_charge_above_the_quota, MACHINE_BEGIN + 10 * MIB);
}

/* Older runtimes begin the device when a managed variable is registered. Without the driver's files the interposer does
 * not see the memory that this took. */
static void role_managed_variable(void *argument)
{
    static char start[MANAGED_BYTES];
    uint64_t begin = argument ? MACHINE_BEGIN : 0;
    void *variable = NULL, *more = NULL, *pointer;

    role_open();
    void **modules = hip.__hipRegisterFatBinary(&binary), **others = hip.__hipRegisterFatBinary(&binary);
    start[7] = 7;
    hip.__hipRegisterManagedVar(modules, &variable, start, "variable", MANAGED_BYTES, 16);
    CHECK(((char *)variable)[7] == 7);
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(hip.hipMalloc(&pointer, MIB), hipSuccess);
    CHECK_EQUAL(machine_charged(0), begin + MANAGED_BYTES + MIB);
    hip.__hipRegisterManagedVar(others, &more, start, "more", MANAGED_BYTES - 1, 16);
    CHECK_EQUAL(machine_charged(0), begin + 2 * MANAGED_BYTES + MIB);
    hip.__hipUnregisterFatBinary(modules);
    CHECK_EQUAL(machine_charged(0), begin + MANAGED_BYTES + MIB);
    CHECK_EQUAL(fake_used_of_kind(0, FAKE_MANAGED), MANAGED_BYTES);
    hip.__hipUnregisterFatBinary(others);
    CHECK_EQUAL(machine_charged(0), begin + MIB);
}

static void test_managed_variables_are_charged_with_their_device(void **state)
{
    run_with_and_without_files(role_managed_variable, GIB);
}

static void role_managed_variable_over_quota(void *argument)
{
    static char start[MANAGED_BYTES];
    void *variable = NULL, *pointer;

    role_open();
    hip.__hipRegisterManagedVar(hip.__hipRegisterFatBinary(&binary), &variable, start, "variable", MANAGED_BYTES, 16);
    CHECK_EQUAL(hip.hipMalloc(&pointer, 1), hipErrorOutOfMemory);
    CHECK_EQUAL(machine_charged(0), 0);
}

static void test_a_quota_without_room_for_managed_variables_is_refused_with_the_first_call(void **state)
{
    run_role(role_managed_variable_over_quota, MACHINE_BEGIN + MIB, true);
}

static void *load_and_unload(void *argument)
{
    hipLibrary_t library;
    hipModule_t module;
    hipKernel_t kernel;

    for (uint32_t i = 0; i < 100; i++) {
        CHECK_EQUAL(hip.hipModuleLoadData(&module, image), hipSuccess);
        CHECK_EQUAL(hip.hipLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), hipSuccess);
        CHECK_EQUAL(hip.hipLibraryGetKernel(&kernel, library, "second"), hipSuccess);
        CHECK(machine_charged(0) >= MACHINE_BEGIN + GLOBALS_BYTES + 2 * CODE_BYTES);
        CHECK_EQUAL(hip.hipModuleUnload(module), hipSuccess);
        CHECK_EQUAL(hip.hipLibraryUnload(library), hipSuccess);
    }
    return NULL;
}

/* No thread is charged for memory that another thread's load takes, because only one thread loads and measures at a
 * time. */
static void role_loads_in_threads(void *argument)
{
    pthread_t threads[4];

    role_open();
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, load_and_unload, NULL), 0);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK_CODE_CHARGED(0);
}

static void test_charges_are_exact_after_threads_load_at_once(void **state)
{
    run_with_and_without_files(role_loads_in_threads, GIB);
}

/* The runtime's own error comes back, and nothing is charged. */
static void role_wrong_arguments(void *argument)
{
    hipLibrary_t library = NULL;
    hipModule_t module = NULL;
    hipStream_t stream;

    role_open();
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipSuccess);
    CHECK(hip.hipModuleLoadData(NULL, image) != hipSuccess);
    CHECK(hip.hipModuleLoadData(&module, NULL) != hipSuccess);
    CHECK(hip.hipModuleLoadData(&module, "no image") != hipSuccess);
    CHECK(hip.hipModuleLoad(&module, "/nonexistent") != hipSuccess);
    CHECK(hip.hipModuleUnload(NULL) != hipSuccess);
    CHECK(hip.hipLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0) != hipSuccess);
    CHECK(hip.hipLibraryUnload(NULL) != hipSuccess);
    CHECK(hip.hipGetFuncBySymbol(NULL, NULL) != hipSuccess);
    CHECK_CODE_CHARGED(0);
}

static void test_wrong_arguments_get_the_runtimes_own_error(void **state)
{
    run_with_and_without_files(role_wrong_arguments, GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_module_is_charged_until_it_is_unloaded),
        cmocka_unit_test(test_a_module_that_the_quota_has_no_room_for_is_refused),
        cmocka_unit_test(test_a_library_is_charged_at_its_first_query),
        cmocka_unit_test(test_code_loaded_by_a_first_launch_is_charged),
        cmocka_unit_test(test_code_loaded_by_a_query_is_charged),
        cmocka_unit_test(test_a_charge_beyond_the_quota_is_tried_again),
        cmocka_unit_test(test_managed_variables_are_charged_with_their_device),
        cmocka_unit_test(test_a_quota_without_room_for_managed_variables_is_refused_with_the_first_call),
        cmocka_unit_test(test_charges_are_exact_after_threads_load_at_once),
        cmocka_unit_test(test_wrong_arguments_get_the_runtimes_own_error),
    };

    return cmocka_run_group_tests_name("hip/code", tests, NULL, NULL);
}
