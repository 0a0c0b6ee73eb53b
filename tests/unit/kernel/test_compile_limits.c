/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that no source ends the process that compiles it, and that a source that exceeds a limit, or needs what
 * a target lacks, is refused at compile time. The refusal gives the name, value and limit, or the place in the source.
 * Never: measures; runs the image that a compile gives.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "../../effort.h"
#include "growing.h"

/* Expects that the compiler still compiles a usual source, after it refused another. */
static void expect_usual(const char *target)
{
    struct facet_backend_result result;

    compile_well(saxpy, target, &result);
    backend->clear(&result);
}

/* --- nests -------------------------------------------------------------------------------------------------------- */

/* Operators in a nest. A parser would need more than 1 GiB of stack for so many levels. */
enum { DEEP = 1000000 };

static const char prologue[] = "kernel void k(global int *o) { o[0] = ";

static void deep_nests_are_refused(void **state)
{
    static const char *const some_targets[] = {"host", "ptx:sm_90", "spirv:1.2"};

    (void)state;
    for (size_t i = 0; i < COUNT(some_targets); i++) {
        struct text source = {0};

        if (is_beyond(some_targets[i]))
            continue;
        add(&source, prologue, 1);
        add(&source, "-~", DEEP / 2);
        add(&source, "o[1]; }\n", 1);
        expect(&source, some_targets[i], FACET_OUT_OF_RANGE, "nests too deep");
        expect_usual(some_targets[i]);
        free(source.bytes);
    }
}

static void short_sources_of_deep_nests_are_refused(void **state)
{
    struct text operators = {0};

    (void)state;
    add_doubling(&operators, 20);
    add(&operators, prologue, 1);
    add(&operators, "M20 o[1]; }\n", 1);
    expect(&operators, "host", FACET_OUT_OF_RANGE, "nests too deep");
    expect_usual("host");
    free(operators.bytes);
}

/* The preprocessor evaluates conditions, so that the parser's own bound does not apply. */
static void deep_conditions_are_refused(void **state)
{
    struct text source = {0};

    (void)state;
    add_doubling(&source, 22);
    add(&source, "#if M22 1\n#endif\nkernel void k(global int *o) { o[0] = 1; }\n", 1);
    expect(&source, "host", FACET_OUT_OF_RANGE, "nests too deep");
    expect_usual("host");
    free(source.bytes);
}

/* These nests need more stack than most threads have. Under a sanitizer, with which the parser is slow, they are
 * smaller. */
static void less_deep_nests_are_compiled(void **state)
{
    bool quick = effort(100, 0) < 100;
    struct text source = {0};

    (void)state;
    add_doubling(&source, quick ? 12 : 16);
    add(&source, prologue, 1);
    add(&source, quick ? "M12 o[1]; }\n" : "M16 o[1]; }\n", 1);
    expect(&source, "host", FACET_OK, "");
    free(source.bytes);
}

/* --- long sources ------------------------------------------------------------------------------------------------- */

/* Compiles `source` and `empty_lines` empty lines. */
static void compile_long(const char *source, size_t empty_lines, const char *const *arguments,
                         enum facet_status expected, struct facet_backend_result *ret_result)
{
    struct text text = {0};
    struct facet_error error;

    add(&text, source, 1);
    add(&text, " \n", empty_lines);
    enum facet_status status =
        compile_bytes(FACET_SOURCE_OPENCL_C, text.bytes, text.used, "host", arguments, ret_result, &error);
    free(text.bytes);
    if (status != expected)
        fail_msg("status %d: \"%s\"; expected %d", status, error.message, expected);
}

static void assert_same(const struct facet_backend_result *left, const struct facet_backend_result *right)
{
    assert_int_equal(left->bytes, right->bytes);
    assert_int_equal(left->unrepeatable, right->unrepeatable);
    assert_int_equal(left->diagnostic_count, right->diagnostic_count);
    for (uint32_t i = 0; i < left->diagnostic_count; i++) {
        assert_int_equal(left->diagnostics[i].severity, right->diagnostics[i].severity);
        assert_int_equal(left->diagnostics[i].line, right->diagnostics[i].line);
        assert_int_equal(left->diagnostics[i].column, right->diagnostics[i].column);
        assert_string_equal(left->diagnostics[i].file, right->diagnostics[i].file);
        assert_string_equal(left->diagnostics[i].text, right->diagnostics[i].text);
    }
    assert_int_equal(left->read_count, right->read_count);
    for (uint32_t i = 0; i < left->read_count; i++) {
        assert_string_equal(left->reads[i].path, right->reads[i].path);
        assert_int_equal(left->reads[i].kind, right->reads[i].kind);
        assert_int_equal(left->reads[i].bytes, right->reads[i].bytes);
        assert_memory_equal(left->reads[i].hash, right->reads[i].hash, sizeof left->reads[i].hash);
    }
}

static void write_header(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* The compile runs in a copy of the process, from which a result of any length must arrive whole. */
static void long_sources_compile_like_short_ones(void **state)
{
    static const char source[] = "#include \"four.h\"\n#warning one\n#warning two\n"
                                 "kernel void k(global int *x) { x[0] = FOUR; }\n";
    static const char clock[] = "kernel void k(global int *x) { x[0] = sizeof(__TIME__); }\n";
    static const char broken[] = "#warning one\nkernel void k(global int *x) { x[0] = none; }\n";
    struct facet_backend_result once, again;
    char folder[] = "/tmp/facet-test-XXXXXX", path[64];
    const char *const arguments[] = {"-I", folder, NULL};

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/four.h", folder);
    write_header(path, "#define FOUR 4\n");
    for (size_t i = 0; i < 3; i++) {
        static const char *const sources[] = {source, clock, broken};
        enum facet_status expected = sources[i] == broken ? FACET_CORRUPT : FACET_OK;

        compile_long(sources[i], 0, arguments, expected, &once);
        compile_long(sources[i], 100000, arguments, expected, &again);
        assert_true(sources[i] == clock || once.diagnostic_count == 2);
        assert_true(sources[i] != source || once.read_count > 0);
        assert_int_equal(once.unrepeatable, sources[i] == clock);
        assert_same(&once, &again);
        if (expected == FACET_OK) {
            assert_memory_equal(once.image, again.image, once.bytes);
            assert_string_equal(once.description, again.description);
            assert_true(again.frontend_ns && again.optimize_ns && again.generate_ns && again.link_ns);
        }
        backend->clear(&once);
        backend->clear(&again);
    }
    unlink(path);
    rmdir(folder);
}

static void long_modules_are_compiled_too(void **state)
{
    struct facet_backend_result result;
    struct facet_error error;
    struct text source = {0};

    (void)state;
    add(&source, "define spir_kernel void @k(ptr addrspace(1) %x) {\n  ret void\n}\n", 1);
    add(&source, "; and so on\n", 10000);
    if (compile_bytes(FACET_SOURCE_LLVM_IR, source.bytes, source.used, "ptx:sm_75", NULL, &result, &error) != FACET_OK)
        fail_msg("%s", error.message);
    backend->clear(&result);
    free(source.bytes);
}

/* A handler of SIGCHLD that waits for every child. A program may have such a handler. */
static void reap_all_children(int signal)
{
    int saved_errno = errno;

    (void)signal;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    errno = saved_errno;
}

/* The compiler must learn how the programs that it runs ended. Here spirv-val reports that a module names no memory
 * model: after its five words of header, the module has only "OpCapability Kernel". */
static void expect_verdict(void)
{
    static const uint32_t words[] = {0x07230203, 0x10000, 0, 10, 0, 2 << 16 | 17, 6};
    struct facet_backend_result result;
    struct facet_error error;

    assert_int_equal(compile_bytes(FACET_SOURCE_SPIRV, words, sizeof words, "host", NULL, &result, &error),
                     FACET_CORRUPT);
    if (!strstr(error.message, "the SPIR-V is not valid"))
        fail_msg("%s", error.message);
    backend->clear(&result);
}

static void a_program_may_wait_for_children_of_the_compiler(void **state)
{
    void (*const handlers[])(int) = {SIG_IGN, reap_all_children};
    bool validates = system("command -v spirv-val >/dev/null") == 0; /* NOLINT(cert-env33-c) */
    struct facet_backend_result result;
    struct text deep = {0};

    (void)state;
    add(&deep, prologue, 1);
    add(&deep, "-~", DEEP / 2);
    add(&deep, "o[1]; }\n", 1);
    for (size_t i = 0; i < COUNT(handlers); i++) {
        signal(SIGCHLD, handlers[i]);
        compile_long(saxpy, 100000, NULL, FACET_OK, &result);
        backend->clear(&result);
        expect(&deep, "host", FACET_OUT_OF_RANGE, "nests too deep");
        if (validates)
            expect_verdict();
    }
    signal(SIGCHLD, SIG_DFL);
    free(deep.bytes);
}

static void *compile_in_thread(void *is_long)
{
    struct facet_backend_result result;

    compile_long(saxpy, is_long ? 100000 : 0, NULL, FACET_OK, &result);
    backend->clear(&result);
    return NULL;
}

static void many_threads_compile_at_the_same_time(void **state)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    int yes = 1;

    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* a fork may copy locks of the sanitizer that threads hold while they begin or end */
#endif
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compile_in_thread, i % 2 ? &yes : NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* --- beyond any image --------------------------------------------------------------------------------------------- */

/* Expects a status, and a message that contains `fragment`, for a target of each vendor and for SPIR-V. */
static void expect_for_all(struct text *source, enum facet_status expected, const char *fragment)
{
    static const char *const some_targets[] = {"host", "ptx:sm_90", "amdgcn:gfx90a", "spirv:1.2"};

    for (size_t i = 0; i < COUNT(some_targets); i++)
        if (!is_beyond(some_targets[i]))
            expect(source, some_targets[i], expected, fragment);
    free(source->bytes);
    *source = (struct text){0};
}

static void expect_for_all_but_spirv(struct text *source, enum facet_status expected, const char *fragment)
{
    static const char *const some_targets[] = {"host", "ptx:sm_90", "amdgcn:gfx90a"};

    for (size_t i = 0; i < COUNT(some_targets); i++)
        expect(source, some_targets[i], expected, fragment);
    free(source->bytes);
    *source = (struct text){0};
}

static void add_arguments(struct text *source, unsigned count)
{
    char argument[32];

    add(source, "kernel void k(global int *o", 1);
    for (unsigned i = 1; i < count; i++) {
        snprintf(argument, sizeof argument, ", int a%u", i);
        add(source, argument, 1);
    }
    add(source, ") { o[0] = 1; }\n", 1);
}

/* Expects a status and a message for a kernel with a struct of `bytes` bytes, behind a pointer of 8. */
static void expect_struct(unsigned long long bytes, enum facet_status expected, const char *fragment)
{
    static const char *const some_targets[] = {"host", "ptx:sm_90", "amdgcn:gfx90a", "spirv:1.2"};
    struct text source = {0};
    char text[256];

    snprintf(text, sizeof text,
             "typedef struct { char c[%llu]; } big;\nkernel void k(global char *o, big b) { o[0] = b.c[0]; }\n", bytes);
    add(&source, text, 1);
    for (size_t i = 0; i < COUNT(some_targets); i++)
        if (strncmp(some_targets[i], "amdgcn", 6) == 0 && bytes <= 65536 - 8 && is_llvm_19())
            expect(&source, some_targets[i], FACET_CORRUPT, "bytes; expected at most 4096: LLVM 19 takes very long");
        else if (!is_beyond(some_targets[i]))
            expect(&source, some_targets[i], expected, fragment);
    free(source.bytes);
}

static void arguments_beyond_the_limits_are_refused(void **state)
{
    struct text source = {0};

    (void)state;
    add_arguments(&source, 255); /* the most that SPIR-V takes */
    expect_for_all(&source, FACET_OK, "");
    add_arguments(&source, 1024);
    expect_for_all_but_spirv(&source, FACET_OK, "");
    add_arguments(&source, 20000);
    expect_for_all_but_spirv(&source, FACET_CORRUPT, "kernel 'k': it has 20000 arguments; expected at most 1024");
    add_arguments(&source, 256);
    if (!is_beyond("spirv:1.2"))
        expect(&source, "spirv:1.2", FACET_CORRUPT, "kernel 'k': it has 256 arguments; expected at most 255");
    free(source.bytes);
    source = (struct text){0};
    expect_struct(65536 - 8, FACET_OK, "");
    expect_struct(65536 - 7, FACET_CORRUPT, "argument 'b' has 65529 bytes, behind 8 of others; expected at most 65536");
    expect_struct(1ull << 30, FACET_CORRUPT, "kernel 'k': argument 'b' has 1073741824 bytes");
    expect_struct((1ull << 32) + 4, FACET_CORRUPT, ""); /* the wording may be LLVM's */
    add(&source, "typedef struct {} none; kernel void k(none n, global int *o) { o[0] = 1; }\n", 1);
    expect_for_all(&source, FACET_CORRUPT, "argument 'n' has 0 bytes");
}

static void kernels_beyond_the_limits_are_refused(void **state)
{
    struct text source = {0};
    char line[64];

    (void)state;
    add(&source, "kernel void k", 1);
    add(&source, "k", 1100);
    add(&source, "(global int *o) { o[0] = 1; }\n", 1);
    expect_for_all(&source, FACET_CORRUPT, "its name has 1101 bytes; expected at most 1024");
    add(&source, "kernel void k(global int *o", 1);
    add(&source, "o", 1100);
    add(&source, ") { }\n", 1);
    expect_for_all(&source, FACET_CORRUPT, "an argument's name has 1101 bytes; expected at most 1024");
    add(&source, "__attribute__((reqd_work_group_size(8192, 1, 1))) kernel void k(global int *o) { }\n", 1);
    expect_for_all(&source, FACET_CORRUPT, "reqd_work_group_size 8192: expected 1 to 4096");
    for (unsigned i = 0; i < 4097; i++) {
        snprintf(line, sizeof line, "kernel void k%u(global int *o) { }\n", i);
        add(&source, line, 1);
    }
    expect_for_all(&source, FACET_CORRUPT, "4097 kernels; expected at most 4096");
}

/* The size, 4 GiB, would be 0 in 32 bits. */
static void local_memory_beyond_the_limits_is_refused(void **state)
{
    struct text source = {0};

    (void)state;
    add(&source,
        "kernel void k(global float *o) { local float x[1 << 30]; x[get_local_id(0)] = o[0];\n"
        "barrier(CLK_LOCAL_MEM_FENCE); o[1] = x[5]; }\n",
        1);
    expect(&source, "host", FACET_UNSUPPORTED, "more than 1 GiB of local memory");
    expect(&source, "ptx:sm_90", FACET_CORRUPT, "it has 4294967296 bytes of local memory; expected at most 2147483647");
    free(source.bytes);
}

/* --- beyond a target ---------------------------------------------------------------------------------------------- */

/* Expects `count` errors whose texts contain `text`, at lines and columns `positions`. */
static void expect_positions(const char *source, const char *target, const char *text, const uint32_t positions[][2],
                             uint32_t count)
{
    struct facet_backend_result result;
    struct facet_error error;

    assert_int_equal(compile(source, target, NULL, &result, &error), FACET_CORRUPT);
    assert_int_equal(result.diagnostic_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(result.diagnostics[i].severity, FACET_SEVERITY_ERROR);
        assert_int_equal(result.diagnostics[i].line, positions[i][0]);
        assert_int_equal(result.diagnostics[i].column, positions[i][1]);
        assert_non_null(strstr(result.diagnostics[i].text, text));
    }
    backend->clear(&result);
}

static void assembly_is_refused_with_its_place(void **state)
{
    static const char source[] =
        "int f(int x) {\n  int y; __asm__(\"mov.b32 %0, %1;\" : \"=r\"(y) : \"r\"(x)); return y; }\n"
        "kernel void k(global int *o) {\n  __asm__ volatile(\"nop\"); o[0] = f(o[1]); }\n";
    static const char outside[] = "__asm__(\"// x\");\nkernel void k(global int *o) { o[0] = 1; }\n";
    static const char *const refusing[] = {"host", "amdgcn:gfx90a", "spirv:1.2"};
    static const uint32_t positions[][2] = {{2, 10}, {4, 3}}, nowhere[][2] = {{0, 0}};
    struct facet_backend_result result;

    (void)state;
    for (size_t i = 0; i < COUNT(refusing); i++) {
        if (is_beyond(refusing[i]))
            continue;
        expect_positions(source, refusing[i], "inline assembly is not supported for the target", positions, 2);
        expect_positions(outside, refusing[i], "assembly outside of functions", nowhere, 1);
    }
    compile_well(source, "ptx:sm_90", &result);
    assert_non_null(memmem(result.image, result.bytes, "mov.b32", 7));
    backend->clear(&result);
    /* This assembly only orders the accesses, which AMDGPU's generator supports. */
    compile_well("kernel void k(global int *o) { o[0] = 1; __asm__ volatile(\"\" ::: \"memory\"); o[0] = 2; }\n",
                 "amdgcn:gfx90a", &result);
    backend->clear(&result);
}

static void printf_is_refused_for_spirv_too(void **state)
{
    static const char source[] = "kernel void k(global int *x) {\n  printf(\"1\"); x[0] = printf(\"2\"); }\n";
    static const uint32_t positions[][2] = {{2, 3}, {2, 23}};

    (void)state;
    if (!is_beyond("spirv:1.2"))
        expect_positions(source, "spirv:1.2", "printf() is not supported for the target 'spirv:1.2'", positions, 2);
}

/* Expects that no target gets an image. Clang crashes on most of the sources, or refuses them; in either case, this
 * process goes on. */
static void expect_no_kernel(const char *source, const char *const *arguments)
{
    static const char *const some_targets[] = {"host", "ptx:sm_75", "amdgcn:gfx90a"};
    struct facet_backend_result result;
    struct facet_error error;

    for (size_t i = 0; i < COUNT(some_targets); i++) {
        assert_int_not_equal(compile(source, some_targets[i], arguments, &result, &error), FACET_OK);
        assert_true(error.message[0]);
        assert_null(result.image);
        backend->clear(&result);
    }
}

static void a_variable_that_is_a_kernel_is_an_error(void **state)
{
    static const char *const sources[] = {"kernel int x;",
                                          "__kernel int x = 3;\n",
                                          "kernel void k[2](){}",
                                          "kernel int x",
                                          "kernel void k\033[31m(){}",
                                          "kernel void k\033(){}",
                                          "#define MARK kernel\nMARK int x;\n",
                                          "#define JOIN(a, b) a##b\nJOIN(ker, nel) int x;\n",
                                          "kernel int (x);\n",
                                          "kernel __attribute__((unused)) int x;\n",
                                          "typedef int T; kernel T (x);\n"};
    static const char *const macro[] = {"-DMARK=kernel", NULL};

    (void)state;
    for (size_t i = 0; i < COUNT(sources); i++)
        expect_no_kernel(sources[i], NULL);
    expect_no_kernel("MARK int x;\n", macro);
    expect_usual("host");
}

/* The place of a crash is where clang had just read, also if a macro made that text. */
static void a_crash_has_a_place(void **state)
{
    static const char *const sources[][2] = {
        {"\n\tkernel int x;\n", "a \"name\".cl:2:14: the compiler crashed here (signal 11)"},
        {"#define MARK kernel int x;\n\nMARK\nint y;", "a \"name\".cl:3:1: the compiler crashed here"},
    };
    struct facet_backend_result result;
    struct facet_error error;

    (void)state;
    if (!strstr(backend->version, "LLVM 22."))
        skip(); /* other versions may refuse these sources without a crash */
    for (size_t i = 0; i < COUNT(sources); i++) {
        assert_int_equal(compile(sources[i][0], "host", NULL, &result, &error), FACET_INTERNAL);
        if (strncmp(error.message, sources[i][1], strlen(sources[i][1])) != 0)
            fail_msg("%s", error.message);
        backend->clear(&result);
    }
}

/* A superfluous word, like a typing error, is inserted at each space of a source. */
static void a_superfluous_word_does_not_end_the_process(void **state)
{
    static const char *const words[] = {"kernel ", "__attribute__((nvptx_kernel)) ", "( ", "} "};
    struct facet_backend_result result;
    struct facet_error error;
    unsigned crashes = 0;

    (void)state;
    for (size_t word = 0; word < COUNT(words); word++)
        for (size_t at = 0; at < sizeof saxpy - 1; at++) {
            char source[2 * sizeof saxpy + 64];
            if (saxpy[at] != ' ')
                continue;
            snprintf(source, sizeof source, "%.*s %s%s", (int)at, saxpy, words[word], saxpy + at);
            enum facet_status status = compile(source, "host", NULL, &result, &error);
            assert_true(status == FACET_OK || status == FACET_CORRUPT || status == FACET_INTERNAL);
            assert_int_equal(result.image != NULL, status == FACET_OK);
            crashes += status == FACET_INTERNAL;
            backend->clear(&result);
        }
    print_message("# %u crashes of the compiler\n", crashes);
    expect_usual("host");
}

static void a_header_s_variable_that_is_a_kernel_is_an_error(void **state)
{
    char folder[] = "/tmp/facet-test-XXXXXX", path[64];
    const char *const search[] = {"-I", folder, NULL}, *const first[] = {"-include", path, NULL};

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/marked.h", folder);
    write_header(path, "kernel int x;\n");
    expect_no_kernel("#include \"marked.h\"\n", search);
    expect_no_kernel(saxpy, first);
    expect_usual("host");
    unlink(path);
    rmdir(folder);
}

/* One source includes a pipe without a writer, the other source adds 2^34 numbers: neither compile would end within a
 * second. */
static void a_compile_that_takes_too_long_is_ended(void **state)
{
    char folder[] = "/tmp/facet-test-XXXXXX", path[64], doubled[4096] = "#define A0 +1\n";
    const char *const search[] = {"-I", folder, NULL}, *const sources[] = {"\n#include \"pipe.h\"\n", doubled};
    struct facet_backend_result result;
    struct facet_error error;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe.h", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    for (int i = 1; i < 35; i++)
        snprintf(doubled + strlen(doubled), sizeof doubled - strlen(doubled), "#define A%d A%d A%d\n", i, i - 1, i - 1);
    snprintf(doubled + strlen(doubled), sizeof doubled - strlen(doubled), "#if A34\n#endif\nkernel void k(){}\n");
    compile_seconds = 1;
    for (size_t i = 0; i < COUNT(sources); i++) {
        assert_int_equal(compile(sources[i], "host", search, &result, &error), FACET_TIMEOUT);
        assert_string_equal(error.argument, "seconds");
        assert_non_null(strstr(error.message, "a \"name\".cl"));
        assert_non_null(strstr(error.message, "the compile took more than 1 s and was ended"));
        assert_null(result.image);
        backend->clear(&result);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    }
    compile_seconds = 600;
    expect_usual("host");
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_variable_that_is_a_kernel_is_an_error),
        cmocka_unit_test(a_crash_has_a_place),
        cmocka_unit_test(a_superfluous_word_does_not_end_the_process),
        cmocka_unit_test(a_header_s_variable_that_is_a_kernel_is_an_error),
        cmocka_unit_test(a_compile_that_takes_too_long_is_ended),
        cmocka_unit_test(deep_nests_are_refused),
        cmocka_unit_test(short_sources_of_deep_nests_are_refused),
        cmocka_unit_test(deep_conditions_are_refused),
        cmocka_unit_test(less_deep_nests_are_compiled),
        cmocka_unit_test(long_sources_compile_like_short_ones),
        cmocka_unit_test(long_modules_are_compiled_too),
        cmocka_unit_test(a_program_may_wait_for_children_of_the_compiler),
        cmocka_unit_test(many_threads_compile_at_the_same_time),
        cmocka_unit_test(arguments_beyond_the_limits_are_refused),
        cmocka_unit_test(kernels_beyond_the_limits_are_refused),
        cmocka_unit_test(local_memory_beyond_the_limits_is_refused),
        cmocka_unit_test(assembly_is_refused_with_its_place),
        cmocka_unit_test(printf_is_refused_for_spirv_too),
    };

    open_backend(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
