/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of how the kernel compiler rewrites LLVM IR and SPIR-V before LLVM or llvm-spirv reads them (remap.c,
 * spirv.c), and of its temporary files (files.c).
 * Never: needs LLVM.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernel/compile/files.h"
#include "kernel/compile/remap.h"
#include "kernel/compile/spirv.h"

/* Under a sanitizer each search reads the whole text, which adds to the cost that is measured. */
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#define MEASURES_GROWTH
#endif

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

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

#ifdef MEASURES_GROWTH
/* Measures the processor time for `count` declarations, each of which occurs twice. */
static double declare_many(unsigned count)
{
    const struct facet_remap remap = {.kernel = ""};
    size_t used = 0, size = (size_t)count * 80 + 1;
    char *text = malloc(size), *made;
    struct timespec start, end;

    assert_non_null(text);
    for (unsigned i = 0; i < count * 2; i++)
        used += (size_t)snprintf(text + used, size - used, "declare float @name%u(float)\n", i % count);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    made = facet_remap_text(text, &remap);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    assert_non_null(made);
    assert_int_equal(strlen(made) * 2, used);
    assert_memory_equal(made, text, strlen(made));
    free(made);
    free(text);
    return (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
}

static void repeated_declarations_are_found_in_proportion(void **state)
{
    enum { FEW_DECLARATIONS = 2000, FACTOR = 8, FACTOR_MOST = 24 };
    double few = declare_many(FEW_DECLARATIONS), many = declare_many(FEW_DECLARATIONS * FACTOR);

    (void)state;
    if (many > few * FACTOR_MOST)
        fail_msg("%d declarations take %.4f s, %d take %.4f s; expected at most %d times as long", FEW_DECLARATIONS,
                 few, FEW_DECLARATIONS * FACTOR, many, FACTOR_MOST);
}
#endif

/* After the header of five words: types %1 of 32 bits and %2 of 64 bits, type %3 of Booleans, and null constants of
 * each of these types (%4, %5, %6) and of a type %9 that is not a number (%7). The last must stay. */
static void null_constants_of_spirv_are_written_as_numbers(void **state)
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
    /* What must stand instead of the null constants, from words[15] on: OpConstant, OpConstant, OpConstantFalse. */
    static const uint32_t tail[] = {4 << 16 | 43, 1, 4, 0, 5 << 16 | 43, 2, 5, 0, 0, 3 << 16 | 42, 3, 6,
                                    3 << 16 | 46, 9, 7};
    /* A null constant that is not a number keeps its three words; a word behind them is dropped. */
    static const uint32_t longer[] = {0x07230203, 0x10200, 0, 20, 0, 4 << 16 | 46, 9, 7, 0};
    uint32_t *made = NULL;
    size_t count = 0;

    (void)state;
    assert_int_equal(facet_spirv_plain(words, sizeof words, &made, &count, NULL), FACET_OK);
    assert_int_equal(count, 15 + COUNT(tail));
    assert_memory_equal(made, words, 15 * sizeof *words);
    assert_memory_equal(made + 15, tail, sizeof tail);
    free(made);
    assert_int_equal(facet_spirv_plain(longer, sizeof longer, &made, &count, NULL), FACET_OK);
    assert_int_equal(count, 8);
    assert_memory_equal(made + 5, tail + 12, 3 * sizeof *tail);
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

static void alignments_of_128_are_not_negative(void **state)
{
    /* OpDecorate %4 Alignment 128 and 64; OpDecorate %4 of another kind; OpDecorate with another count of words. */
    static const uint32_t words[] = {
        0x07230203, 0x10200, 0,  20,           0, 4 << 16 | 71, 4,          44,           0xffffff80, 4 << 16 | 71,
        4,          44,      64, 4 << 16 | 71, 4, 38,           0xffffff80, 5 << 16 | 71, 4,          44,
        0xffffff80, 0};
    uint32_t *made = NULL;
    size_t count = 0;

    (void)state;
    assert_int_equal(facet_spirv_plain(words, sizeof words, &made, &count, NULL), FACET_OK);
    assert_int_equal(count, COUNT(words));
    assert_int_equal(made[8], 128);
    made[8] = words[8];
    assert_memory_equal(made, words, sizeof words);
    free(made);
}

/* The folder has the files that a crashed compile leaves. */
static void a_folder_is_removed_with_its_files(void **state)
{
    static const struct facet_folder none = {.path = ""};
    char path[FACET_FOLDER_SIZE + 16];
    struct facet_folder folder;

    (void)state;
    assert_int_equal(facet_folder_make(&folder, NULL), FACET_OK);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%d", folder.path, i);
        assert_int_equal(facet_file_write(path, "x", 1, NULL), FACET_OK);
    }
    facet_folder_remove(&folder);
    assert_int_equal(access(folder.path, F_OK), -1);
    facet_folder_remove(&folder);
    facet_folder_remove(&none);
}

/* Runs in a child with mounts of its own, and returns the child's exit status: which step failed. */
static int make_folder_elsewhere(void)
{
    struct facet_folder folder;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("facet-test", "/dev/shm", "tmpfs", 0, "size=64k,mode=0777") < 0)
        return 77;
    setenv("TMPDIR", "/dev/shm", 1);
    if (facet_folder_make(&folder, NULL) != FACET_OK)
        return 1;
    facet_folder_remove(&folder);
    return strncmp(folder.path, "/tmp/", 5) == 0 ? 0 : 2;
}

/* The compiler runs the objects that it links in this folder, so no other user may replace them. */
static void a_folder_that_others_could_exchange_is_not_used(void **state)
{
    int status = 0;
    pid_t child = fork();

    (void)state;
    if (child == 0)
        _exit(make_folder_elsewhere());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_rewritten_outside_quotes),
#ifdef MEASURES_GROWTH
        cmocka_unit_test(repeated_declarations_are_found_in_proportion),
#endif
        cmocka_unit_test(null_constants_of_spirv_are_written_as_numbers),
        cmocka_unit_test(alignments_of_128_are_not_negative),
        cmocka_unit_test(a_folder_is_removed_with_its_files),
        cmocka_unit_test(a_folder_that_others_could_exchange_is_not_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
