/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the built kernel compiler, through its one symbol: what it makes, what it refuses and how it says so;
 * and of its parts that need no LLVM (remap.c, spirv.c).
 * Never: measures; needs a device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <jansson.h>

#include "kernel/backend.h"
#include "kernel/compile/remap.h"
#include "kernel/compile/spirv.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const char saxpy[] = "kernel void saxpy(float a, global const float *x, global float *y)\n"
                            "{ int i = get_global_id(0); y[i] = a * x[i] + y[i]; }\n";
static const char kinds[] =
    "typedef struct { int a; float b[3]; } pair;\n"
    "__attribute__((reqd_work_group_size(16, 4, 1)))\n"
    "kernel void kinds(global float *x, constant float *c, local float *l, pair p, float3 f, char ch, ulong n)\n"
    "{ local float tile[64]; int i = get_local_id(0); tile[i] = x[i]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  x[i] = tile[i ^ 1] * c[i] + l[i] + p.a + p.b[1] + f.y + ch + n; }\n";
static const char *const targets[] = {"host",          "host:x86-64-v3", "ptx:sm_75",      "ptx:sm_90", "ptx:sm_100",
                                      "amdgcn:gfx90a", "amdgcn:gfx942",  "amdgcn:gfx1100", "spirv:1.0", "spirv:1.2"};

static const struct facet_backend *backend;

static int open_backend(void **state)
{
    facet_backend_entry_func entry;
    void *object = dlopen(getenv("FACET_TEST_COMPILER"), RTLD_NOW | RTLD_LOCAL);

    (void)state;
    if (!object)
        fprintf(stderr, "%s\n", dlerror());
    assert_non_null(object);
    *(void **)&entry = dlsym(object, FACET_BACKEND_ENTRY);
    assert_non_null(entry);
    backend = entry();
    return 0;
}

/* --- compiling ---------------------------------------------------------------------------------------------------- */

static enum facet_status compile_bytes(uint32_t kind, const void *source, size_t bytes, const char *target,
                                       const char *const *arguments, struct facet_backend_result *ret_result,
                                       struct facet_error *error)
{
    const struct facet_backend_request request = {
        .source = source,
        .bytes = bytes,
        .target = target,
        .name = "a \"name\".cl",
        .arguments = arguments,
        .source_kind = kind,
    };

    *error = (struct facet_error){0};
    return backend->compile(&request, ret_result, error);
}

static enum facet_status compile(const char *source, const char *target, const char *const *arguments,
                                 struct facet_backend_result *ret_result, struct facet_error *error)
{
    return compile_bytes(FACET_SOURCE_OPENCL_C, source, strlen(source), target, arguments, ret_result, error);
}

static void compile_well(const char *source, const char *target, struct facet_backend_result *ret_result)
{
    struct facet_error error;

    if (compile(source, target, NULL, ret_result, &error) != FACET_OK)
        fail_msg("%s: %s", target, error.message);
    assert_int_equal(ret_result->diagnostic_count, 0);
    assert_non_null(ret_result->image);
    assert_non_null(ret_result->description);
}

static bool holds(const struct facet_backend_result *result, const char *text)
{
    return memmem(result->image, result->bytes, text, strlen(text)) != NULL;
}

static void check_format(const char *target, const struct facet_backend_result *result)
{
    static const uint32_t spirv = 0x07230203;
    Elf64_Ehdr header;

    if (strncmp(target, "spirv", 5) == 0) {
        assert_memory_equal(result->image, &spirv, sizeof spirv);
        return;
    }
    assert_true(holds(result, result->description));
    if (strncmp(target, "ptx", 3) == 0) {
        assert_true(holds(result, ".visible .entry saxpy("));
        assert_true(holds(result, strchr(target, ':') + 1));
        return;
    }
    memcpy(&header, result->image, sizeof header);
    assert_memory_equal(header.e_ident, ELFMAG, SELFMAG);
    assert_int_equal(header.e_type, ET_DYN);
    assert_int_equal(header.e_machine, strncmp(target, "host", 4) == 0 ? EM_X86_64 : EM_AMDGPU);
    assert_true(holds(result, FACET_HOST_IMAGE_SECTION));
}

static void all_targets_make_images(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        struct facet_backend_result result;

        compile_well(saxpy, targets[i], &result);
        check_format(targets[i], &result);
        assert_true(result.frontend_ns > 0 && result.optimize_ns > 0 && result.generate_ns > 0);
        backend->clear(&result);
        assert_null(result.image);
    }
}

/* What is kept in a cache must not differ from one compile to the next. */
static void the_same_source_gives_the_same_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        struct facet_backend_result first, second;

        compile_well(kinds, targets[i], &first);
        compile_well(kinds, targets[i], &second);
        assert_int_equal(first.bytes, second.bytes);
        assert_memory_equal(first.image, second.image, first.bytes);
        backend->clear(&first);
        backend->clear(&second);
    }
}

/* --- descriptions ------------------------------------------------------------------------------------------------- */

struct expected {
    const char *name, *type, *kind;
    int offset, bytes;
};

static void check_arguments(const char *target, const struct expected *expected, int local_bytes)
{
    struct facet_backend_result result;

    compile_well(kinds, target, &result);
    json_t *image = json_loads(result.description, 0, NULL);
    json_t *kernel = json_array_get(json_object_get(image, "kernels"), 0);
    json_t *list = json_object_get(kernel, "arguments"), *group = json_object_get(kernel, "required_group_size");

    assert_int_equal(json_array_size(list), 7);
    for (size_t i = 0; i < 7; i++) {
        const json_t *argument = json_array_get(list, i);
        assert_string_equal(json_string_value(json_object_get(argument, "name")), expected[i].name);
        assert_string_equal(json_string_value(json_object_get(argument, "type")), expected[i].type);
        assert_string_equal(json_string_value(json_object_get(argument, "kind")), expected[i].kind);
        assert_int_equal(json_integer_value(json_object_get(argument, "offset")), expected[i].offset);
        assert_int_equal(json_integer_value(json_object_get(argument, "bytes")), expected[i].bytes);
    }
    assert_int_equal(json_integer_value(json_array_get(group, 0)), 16);
    assert_int_equal(json_integer_value(json_array_get(group, 1)), 4);
    assert_true(json_integer_value(json_object_get(kernel, "local_bytes")) >= local_bytes);
    json_decref(image);
    backend->clear(&result);
}

static void descriptions_say_what_kernels_take(void **state)
{
    static const struct expected host[] = {
        {"x", "float*", "global", 0, 8}, {"c", "float*", "global", 8, 8},  {"l", "float*", "local", 16, 4},
        {"p", "pair", "value", 20, 16},  {"f", "float3", "value", 48, 16}, {"ch", "char", "value", 64, 1},
        {"n", "ulong", "value", 72, 8},
    };
    static const struct expected ptx[] = {
        {"x", "float*", "global", 0, 8}, {"c", "float*", "global", 8, 8},  {"l", "float*", "local", 16, 8},
        {"p", "pair", "value", 24, 16},  {"f", "float3", "value", 48, 16}, {"ch", "char", "value", 64, 1},
        {"n", "ulong", "value", 72, 8},
    };

    (void)state;
    check_arguments("host", host, 256);
    check_arguments("ptx:sm_90", ptx, 256);
    check_arguments("amdgcn:gfx90a", host, 256);
}

/* --- the host's images run ---------------------------------------------------------------------------------------- */

static void *load(const struct facet_backend_result *result)
{
    char path[64];
    int fd = memfd_create("image", MFD_CLOEXEC);

    assert_int_equal(write(fd, result->image, result->bytes), (ssize_t)result->bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    close(fd);
    assert_non_null(object);
    return object;
}

static void run_saxpy(const struct facet_host_kernel *kernel, uint32_t items)
{
    float x[300], y[300];
    void *scratch = aligned_alloc(FACET_HOST_LOCAL_ALIGN, facet_host_scratch_bytes(kernel, items) / 128 * 128 + 128);
    struct {
        float a;
        uint64_t x, y;
    } __attribute__((aligned(128))) arguments = {3.0f, (uint64_t)(uintptr_t)x, (uint64_t)(uintptr_t)y};
    struct facet_host_group group = {.grid = {2, 1, 1}, .group_size = {items, 1, 1}, .dimensions = 1};

    for (uint32_t i = 0; i < COUNT(x); i++) {
        x[i] = (float)i;
        y[i] = 1.0f;
    }
    group.scratch = scratch;
    for (group.group_id[0] = 0; group.group_id[0] < 2; group.group_id[0]++)
        kernel->run(&arguments, &group);
    for (uint32_t i = 0; i < COUNT(x); i++)
        assert_true(y[i] == (i < 2 * items ? 3.0f * (float)i + 1.0f : 1.0f));
    free(scratch);
}

static void host_images_run(void **state)
{
    struct facet_backend_result result;

    (void)state;
    compile_well(saxpy, "host", &result);
    void *object = load(&result);
    const struct facet_host_image *image = dlsym(object, FACET_HOST_IMAGE_NAME);

    assert_non_null(image);
    assert_int_equal(image->magic, FACET_HOST_IMAGE_MAGIC);
    assert_int_equal(image->abi, FACET_HOST_IMAGE_ABI);
    assert_int_equal(image->size, sizeof *image);
    assert_int_equal(image->kernel_count, 1);
    assert_string_equal(image->kernels[0].name, "saxpy");
    assert_int_equal(image->kernels[0].argument_count, 3);
    assert_string_equal(image->kernels[0].arguments[1].type, "float*");
    assert_int_equal(image->kernels[0].argument_bytes, 24);
    run_saxpy(&image->kernels[0], 128);
    run_saxpy(&image->kernels[0], 7);
    dlclose(object);
    backend->clear(&result);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

static void expect_error(const char *source, const char *target, const char *const *arguments,
                         enum facet_status expected, const char *text)
{
    struct facet_backend_result result;
    struct facet_error error;
    enum facet_status status = compile(source, target, arguments, &result, &error);

    if (status != expected || !strstr(error.message, text))
        fail_msg("status %d: \"%s\"; expected %d and \"%s\"", status, error.message, expected, text);
    assert_null(result.image);
    assert_null(result.description);
    backend->clear(&result);
}

static void errors_have_their_place(void **state)
{
    static const char source[] = "#warning look here\nkernel void k(global int *x) {\n    x[0] = nothing;\n}\n";
    struct facet_backend_result result;
    struct facet_error error;

    (void)state;
    assert_int_equal(compile(source, "host", NULL, &result, &error), FACET_CORRUPT);
    assert_int_equal(result.diagnostic_count, 2);
    assert_int_equal(result.diagnostics[0].severity, FACET_SEVERITY_WARNING);
    assert_int_equal(result.diagnostics[0].line, 1);
    assert_int_equal(result.diagnostics[1].severity, FACET_SEVERITY_ERROR);
    assert_int_equal(result.diagnostics[1].line, 3);
    assert_int_equal(result.diagnostics[1].column, 12);
    assert_string_equal(result.diagnostics[1].file, "a \"name\".cl");
    assert_string_equal(result.diagnostics[1].text, "use of undeclared identifier 'nothing'");
    assert_string_equal(error.message, "a \"name\".cl:3:12: use of undeclared identifier 'nothing'");
    backend->clear(&result);
}

static void warnings_are_kept_and_can_be_errors(void **state)
{
    static const char source[] = "#warning look here\nkernel void k(global int *x) { x[0] = 1; }\n";
    const char *const errors[] = {"-Werror", NULL}, *const none[] = {"-w", NULL};
    struct facet_backend_result result;
    struct facet_error error;

    (void)state;
    assert_int_equal(compile(source, "ptx:sm_75", NULL, &result, &error), FACET_OK);
    assert_int_equal(result.diagnostic_count, 1);
    backend->clear(&result);
    assert_int_equal(compile(source, "ptx:sm_75", none, &result, &error), FACET_OK);
    assert_int_equal(result.diagnostic_count, 0);
    backend->clear(&result);
    expect_error(source, "ptx:sm_75", errors, FACET_CORRUPT, "look here");
}

static void unknown_things_are_refused_by_name(void **state)
{
    static const char *const lists[][3] = {
        {"-frobnicate"}, {"-o", "file"}, {"-cl-std=CL7"}, {"-Wl,-o,x"}, {"-O9"}, {"-D"}, {"-load", "x.so"},
    };
    static const char *const unknown[] = {"ptx:sm_91", "ptx:", "amdgcn:gfx9999", "host:pentium9", "npu:1", "spirv:7.0"};

    (void)state;
    for (size_t i = 0; i < COUNT(lists); i++)
        expect_error(saxpy, "host", lists[i], FACET_INVALID_ARGUMENT, lists[i][0]);
    for (size_t i = 0; i < COUNT(unknown); i++)
        expect_error(saxpy, unknown[i], NULL, FACET_INVALID_ARGUMENT, unknown[i]);
    assert_true(backend->knows("ptx", "sm_121"));
    assert_true(backend->knows("amdgcn", "gfx942"));
    assert_true(backend->knows("host", "znver4"));
    assert_false(backend->knows("ptx", "gfx942"));
    assert_false(backend->knows("ptx", ""));
    assert_false(backend->knows("vax", "780"));
}

static void options_are_heard(void **state)
{
    static const char source[] = "#if N != 4 || !defined(__FAST_RELAXED_MATH__) || __OPENCL_VERSION__ != 120\n"
                                 "#error no\n#endif\n"
                                 "#ifdef __NVPTX__\n#error not that device\n#endif\n"
                                 "#if !defined(__ENDIAN_LITTLE__) || !defined(cl_khr_fp64)\n#error what is it\n#endif\n"
                                 "kernel void k(global double *x) { x[0] = 1.0; }\n";
    const char *const arguments[] = {"-D", "N=4", "-cl-fast-relaxed-math", "-cl-std=CL1.2", NULL};
    struct facet_backend_result result;
    struct facet_error error;

    (void)state;
    if (compile(source, "host", arguments, &result, &error) != FACET_OK)
        fail_msg("%s", error.message);
    backend->clear(&result);
    expect_error(source, "host", NULL, FACET_CORRUPT, "no");
}

static void what_has_no_body_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < 8; i++)
        expect_error("void missing(int); kernel void k(global int *x) { missing(x[0]); }", targets[i], NULL,
                     FACET_CORRUPT, "'missing'");
}

/* --- headers ------------------------------------------------------------------------------------------------------ */

static void headers_come_from_given_folders_only(void **state)
{
    static const char source[] = "#include \"four.h\"\nkernel void k(global int *x) { x[0] = FOUR; }\n";
    char folder[] = "/tmp/facet-test-XXXXXX", path[64], start[1024];
    const char *const arguments[] = {"-I", folder, NULL};
    struct facet_backend_result result;
    struct facet_error error;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/four.h", folder);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs("#define FOUR 4\n", file);
    fclose(file);
    assert_int_equal(compile(source, "ptx:sm_75", arguments, &result, &error), FACET_OK);
    backend->clear(&result);
    /* Not from where the program happens to stand. */
    assert_non_null(getcwd(start, sizeof start));
    assert_int_equal(chdir(folder), 0);
    expect_error(source, "ptx:sm_75", NULL, FACET_CORRUPT, "'four.h' file not found");
    assert_int_equal(chdir(start), 0);
    unlink(path);
    rmdir(folder);
}

/* --- LLVM IR and SPIR-V ------------------------------------------------------------------------------------------- */

static const char module[] = "target triple = \"spir64-unknown-unknown\"\n"
                             "@tile = internal addrspace(3) global [4 x float] undef\n"
                             "declare spir_func i64 @_Z13get_global_idj(i32)\n"
                             "declare spir_func float @_Z3expf(float)\n"
                             "declare void @llvm.memcpy.p0.p2.i64(ptr, ptr addrspace(2), i64, i1)\n"
                             "declare void @llvm.memcpy.p0.p1.i64(ptr, ptr addrspace(1), i64, i1)\n"
                             "define spir_kernel void @k(ptr addrspace(1) %x, ptr addrspace(2) %c) {\n"
                             "  %own = alloca [4 x float]\n"
                             "  call void @llvm.memcpy.p0.p2.i64(ptr %own, ptr addrspace(2) %c, i64 16, i1 false)\n"
                             "  call void @llvm.memcpy.p0.p1.i64(ptr %own, ptr addrspace(1) %x, i64 8, i1 false)\n"
                             "  %any = addrspacecast ptr %own to ptr addrspace(4)\n"
                             "  %i = call spir_func i64 @_Z13get_global_idj(i32 0)\n"
                             "  %m = and i64 %i, 3\n"
                             "  %p = getelementptr float, ptr addrspace(4) %any, i64 %m\n"
                             "  %v = load float, ptr addrspace(4) %p\n"
                             "  %e = call spir_func float @_Z3expf(float %v)\n"
                             "  store float %e, ptr addrspace(3) @tile\n"
                             "  %t = load float, ptr addrspace(3) @tile\n"
                             "  %q = getelementptr float, ptr addrspace(1) %x, i64 %i\n"
                             "  store float %t, ptr addrspace(1) %q\n"
                             "  ret void\n}\n";

static void modules_are_taken_for_all_targets(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        struct facet_backend_result result;
        struct facet_error error;

        if (compile_bytes(FACET_SOURCE_LLVM_IR, module, strlen(module), targets[i], NULL, &result, &error) != FACET_OK)
            fail_msg("%s: %s", targets[i], error.message);
        assert_non_null(strstr(result.description, "\"name\":\"k\""));
        backend->clear(&result);
    }
}

static void expect_refused(uint32_t kind, const void *source, size_t bytes, enum facet_status expected,
                           const char *text)
{
    struct facet_backend_result result;
    struct facet_error error;
    enum facet_status status = compile_bytes(kind, source, bytes, "ptx:sm_75", NULL, &result, &error);

    if (status != expected || !strstr(error.message, text))
        fail_msg("status %d: \"%s\"; expected %d and \"%s\"", status, error.message, expected, text);
    assert_null(result.image);
    backend->clear(&result);
}

static void broken_modules_are_refused(void **state)
{
    static const char other[] = "target triple = \"x86_64-pc-linux-gnu\"\ndefine void @f() { ret void }\n";
    static const char invalid[] =
        "define spir_kernel void @k() {\n  br label %b\nb:\n  %x = add i32 %y, 1\n  br label %c\n"
        "c:\n  %y = add i32 1, 1\n  ret void\n}\n";
    static const unsigned char bitcode[] = {'B', 'C', 0xc0, 0xde, 1, 2, 3, 4, 5, 6, 7, 8};
    static const uint32_t spirv[] = {0x07230203, 0x10000, 0, 10, 0, 5 << 16 | 17, 1};

    (void)state;
    expect_refused(FACET_SOURCE_LLVM_IR, other, strlen(other), FACET_CORRUPT, "x86_64-pc-linux-gnu");
    expect_refused(FACET_SOURCE_LLVM_IR, invalid, strlen(invalid), FACET_CORRUPT, "does not dominate");
    expect_refused(FACET_SOURCE_LLVM_IR, bitcode, sizeof bitcode, FACET_CORRUPT, "not LLVM IR");
    expect_refused(FACET_SOURCE_SPIRV, spirv, sizeof spirv, FACET_CORRUPT, "cut off in an instruction");
    expect_refused(77, saxpy, strlen(saxpy), FACET_INVALID_ARGUMENT, "source kind 77");
}

/* LLVM knows no way to make this on PTX and calls its handler, which must lead back here, and leave all usable. */
static void what_llvm_gives_up_on_is_an_error(void **state)
{
    static const char source[] = "declare float @llvm.sinh.f32(float)\n"
                                 "define spir_kernel void @k(ptr addrspace(1) %x) {\n"
                                 "  %v = load float, ptr addrspace(1) %x\n"
                                 "  %s = call float @llvm.sinh.f32(float %v)\n"
                                 "  store float %s, ptr addrspace(1) %x\n  ret void\n}\n";
    struct facet_backend_result result;

    (void)state;
    expect_refused(FACET_SOURCE_LLVM_IR, source, strlen(source), FACET_INTERNAL, "gave up");
    compile_well(saxpy, "ptx:sm_75", &result);
    backend->clear(&result);
}

static void spirv_comes_back(void **state)
{
    struct facet_backend_result words, result;
    struct facet_error error;

    (void)state;
    if (system("command -v llvm-spirv-15 >/dev/null || command -v llvm-spirv >/dev/null") != 0)
        skip();
    compile_well(saxpy, "spirv:1.2", &words);
    for (size_t i = 0; i < COUNT(targets); i++) {
        if (compile_bytes(FACET_SOURCE_SPIRV, words.image, words.bytes, targets[i], NULL, &result, &error) != FACET_OK)
            fail_msg("%s: %s", targets[i], error.message);
        assert_non_null(strstr(result.description, "\"name\":\"saxpy\""));
        backend->clear(&result);
    }
    backend->clear(&words);
}

/* --- manners ------------------------------------------------------------------------------------------------------ */

static void nothing_is_printed(void **state)
{
    struct facet_backend_result result;
    struct facet_error error;
    struct stat info;
    int kept[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)}, fd = memfd_create("said", MFD_CLOEXEC);

    (void)state;
    fflush(NULL);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    (void)compile("#warning w\nkernel void k() { nothing; }", "host", NULL, &result, &error);
    backend->clear(&result);
    (void)compile(saxpy, "ptx:sm_91", NULL, &result, &error);
    backend->clear(&result);
    (void)compile(saxpy, "amdgcn:gfx90a", NULL, &result, &error);
    backend->clear(&result);
    fflush(NULL);
    dup2(kept[0], STDOUT_FILENO);
    dup2(kept[1], STDERR_FILENO);
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_size, 0);
    close(kept[0]);
    close(kept[1]);
    close(fd);
}

static void *compile_all(void *failed)
{
    for (size_t i = 0; i < COUNT(targets); i++) {
        struct facet_backend_result result;
        struct facet_error error;

        if (compile(i % 2 ? saxpy : kinds, targets[i], NULL, &result, &error) != FACET_OK)
            *(bool *)failed = true;
        backend->clear(&result);
    }
    return NULL;
}

static void threads_compile_at_the_same_time(void **state)
{
    pthread_t threads[4];
    bool failed[4] = {false};

    (void)state;
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compile_all, &failed[i]), 0);
    for (size_t i = 0; i < COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_false(failed[i]);
    }
}

/* --- goldens ------------------------------------------------------------------------------------------------------ */

/* The first word of each line of PTX: what is done, without the registers that it is done with. */
static void shape_of(const struct facet_backend_result *result, char *ret_shape, size_t size)
{
    const char *at = result->image, *end = at + result->bytes;
    size_t used = 0;

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length;

        stop = stop ? stop : end;
        at += strspn(at, " \t");
        length = strcspn(at, " \t\n;");
        if (at < stop && strncmp(at, "//", 2) != 0 && used + length + 2 < size) {
            memcpy(ret_shape + used, at, length);
            ret_shape[used + length] = '\n';
            used += length + 1;
        }
        at = stop + 1;
    }
    ret_shape[used] = '\0';
}

static void ptx_has_the_shape_it_had(void **state)
{
    struct facet_backend_result result;
    char path[1024], shape[4096], golden[4096] = "";

    (void)state;
    if (!strstr(backend->version, "LLVM 22"))
        skip();
    snprintf(path, sizeof path, "%s/kernel-saxpy.ptx", getenv("FACET_TEST_GOLDEN"));
    compile_well(saxpy, "ptx:sm_90", &result);
    shape_of(&result, shape, sizeof shape);
    backend->clear(&result);
    FILE *file = fopen(path, getenv("FACET_TEST_UPDATE") ? "w+e" : "re");
    assert_non_null(file);
    if (getenv("FACET_TEST_UPDATE")) {
        fputs(shape, file);
        rewind(file);
    }
    assert_true(fread(golden, 1, sizeof golden - 1, file) > 0);
    fclose(file);
    assert_string_equal(shape, golden);
}

/* --- parts without LLVM ------------------------------------------------------------------------------------------- */

static void check_remap(const struct facet_remap *remap, const char *text, const char *expected)
{
    char *made = facet_remap_text(text, remap);

    assert_non_null(made);
    assert_string_equal(made, expected);
    free(made);
}

static void text_is_rewritten_outside_quotes(void **state)
{
    static const struct facet_remap spir = {.spaces = {0, 1, 4, 3, 0, 5, 6, 7},
                                            .names = true,
                                            .kernel = "ptx_kernel",
                                            .image = "ptr addrspace(1)",
                                            .sampler = "ptr addrspace(4)",
                                            .event = "ptr"};
    static const struct facet_remap strip = {.kernel = ""};

    (void)state;
    check_remap(&spir, "store i8 0, ptr addrspace(2) %a, !x !\"ptr addrspace(2)\"",
                "store i8 0, ptr addrspace(4) %a, !x !\"ptr addrspace(2)\"");
    check_remap(&spir, "define spir_kernel void @_Z1fPU3AS4fPU3AS2f(ptr addrspace(4) %p)",
                "define ptx_kernel void @_Z1fPfPU3AS4f(ptr %p)");
    check_remap(&spir, "call spir_func target(\"spirv.Image\", void, 1, 0) @f(target(\"spirv.Sampler\") %s)",
                "call ptr addrspace(1) @f(ptr addrspace(4) %s)");
    check_remap(&spir, "%a = addrspacecast ptr %b to ptr addrspace(4)", "%a = bitcast ptr %b to ptr");
    check_remap(&spir, "%a = addrspacecast ptr addrspace(1) %b to ptr addrspace(4)",
                "%a = addrspacecast ptr addrspace(1) %b to ptr");
    check_remap(&strip, "ptr addrspacecast (ptr addrspace(3) getelementptr (i8, ptr addrspace(3) @x, i64 4) to ptr)",
                "ptr bitcast (ptr getelementptr (i8, ptr @x, i64 4) to ptr)");
    check_remap(&strip, "define ptx_kernel void @k()", "define void @k()");
    check_remap(&strip, "%spir_func.x = add i32 %ptx_kernel, 1", "%spir_func.x = add i32 %ptx_kernel, 1");
    check_remap(&strip, "target triple = \"a\"\ntarget datalayout = \"b\"\nx", "\n\nx");
    check_remap(&strip,
                "declare void @llvm.memcpy.p0.p4.i64(ptr, ptr addrspace(4), i64, i1)\n"
                "declare void @llvm.memcpy.p1.p0.i64(ptr addrspace(1), ptr, i64, i1)\n"
                "declare void @llvm.memcpy.p1.p0.i32(ptr addrspace(1), ptr, i32, i1)\n",
                "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
                "declare void @llvm.memcpy.p0.p0.i32(ptr, ptr, i32, i1)\n");
    check_remap(&strip, "unfinished \"quote addrspace(1)", "unfinished \"quote addrspace(1)");
    check_remap(&strip, " addrspace(1", " addrspace(1");
}

static void null_numbers_of_spirv_are_written_out(void **state)
{
    static const uint32_t words[] = {0x07230203,
                                     0x10200,
                                     0,
                                     20,
                                     0,
                                     4 << 16 | 21,
                                     1,
                                     32,
                                     0,
                                     4 << 16 | 21,
                                     2,
                                     64,
                                     0,
                                     2 << 16 | 20,
                                     3,
                                     3 << 16 | 46,
                                     1,
                                     4,
                                     3 << 16 | 46,
                                     2,
                                     5,
                                     3 << 16 | 46,
                                     3,
                                     6,
                                     3 << 16 | 46,
                                     9,
                                     7};
    static const uint32_t tail[] = {4 << 16 | 43, 1, 4, 0, 5 << 16 | 43, 2, 5, 0, 0, 3 << 16 | 42, 3, 6,
                                    3 << 16 | 46, 9, 7};
    uint32_t *made = NULL;
    size_t count = 0;

    (void)state;
    assert_int_equal(facet_spirv_plain(words, sizeof words, &made, &count, NULL), FACET_OK);
    assert_int_equal(count, 15 + COUNT(tail));
    assert_memory_equal(made, words, 15 * sizeof *words);
    assert_memory_equal(made + 15, tail, sizeof tail);
    free(made);
    for (size_t size = 0; size < sizeof words; size++) {
        struct facet_error error = {0};
        enum facet_status status = facet_spirv_plain(words, size, &made, &count, &error);
        if (status == FACET_OK)
            free(made);
        else
            assert_int_equal(status, FACET_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_targets_make_images),
        cmocka_unit_test(the_same_source_gives_the_same_bytes),
        cmocka_unit_test(descriptions_say_what_kernels_take),
        cmocka_unit_test(host_images_run),
        cmocka_unit_test(errors_have_their_place),
        cmocka_unit_test(warnings_are_kept_and_can_be_errors),
        cmocka_unit_test(unknown_things_are_refused_by_name),
        cmocka_unit_test(options_are_heard),
        cmocka_unit_test(what_has_no_body_is_named),
        cmocka_unit_test(headers_come_from_given_folders_only),
        cmocka_unit_test(modules_are_taken_for_all_targets),
        cmocka_unit_test(broken_modules_are_refused),
        cmocka_unit_test(what_llvm_gives_up_on_is_an_error),
        cmocka_unit_test(spirv_comes_back),
        cmocka_unit_test(nothing_is_printed),
        cmocka_unit_test(threads_compile_at_the_same_time),
        cmocka_unit_test(ptx_has_the_shape_it_had),
        cmocka_unit_test(text_is_rewritten_outside_quotes),
        cmocka_unit_test(null_numbers_of_spirv_are_written_out),
    };

    return cmocka_run_group_tests(tests, open_backend, NULL);
}
