/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of a compile's options, of detecting a source's kind, and of the keys of the kernel cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

#include <cmocka.h>

#include "kernel/key.h"
#include "kernel/options.h"

#define SOURCE "kernel void k() {}"

static enum facet_status make_job(const struct facet_compile_options *options, struct facet_compile_job *job,
                                  struct facet_error *error)
{
    return facet_compile_job_init(SOURCE, sizeof SOURCE - 1, options, job, error);
}

static void defaults_are_filled_in(void **state)
{
    struct facet_compile_job job;

    assert_int_equal(make_job(NULL, &job, NULL), FACET_OK);
    assert_string_equal(job.request.target, "host");
    assert_string_equal(job.request.name, "kernel.cl");
    assert_int_equal(job.request.source_kind, FACET_SOURCE_OPENCL_C);
}

static void options_of_an_older_caller_are_read(void **state)
{
    struct facet_compile_options options = {
        .size = offsetof(struct facet_compile_options, target), .optimize = FACET_OPTIMIZE(1), .target = "nonsense"};
    struct facet_compile_job job;

    assert_int_equal(make_job(&options, &job, NULL), FACET_OK);
    assert_int_equal(job.request.optimize, FACET_OPTIMIZE(1));
    assert_string_equal(job.request.target, "host");
    assert_int_equal(job.request.seconds, 600);
}

static void wrong_options_are_refused(void **state)
{
    static const struct {
        struct facet_compile_options options;
        const char *argument;
        enum facet_status status;
    } bad[] = {
        {{.size = 3}, "options", FACET_INVALID_ARGUMENT},
        {{.size = sizeof bad[0].options, .source = 4}, "source", FACET_INVALID_ARGUMENT},
        {{.size = sizeof bad[0].options, .optimize = 5}, "optimize", FACET_INVALID_ARGUMENT},
        {{.size = sizeof bad[0].options, .check = 2}, "check", FACET_INVALID_ARGUMENT},
        {{.size = sizeof bad[0].options, .seconds = 604801}, "seconds", FACET_INVALID_ARGUMENT},
        {{.size = sizeof bad[0].options, .reserved = 1}, "reserved", FACET_UNSUPPORTED},
        {{.size = sizeof bad[0].options, .check = 1, .target = "sm_90"}, "check", FACET_UNSUPPORTED},
        {{.size = sizeof bad[0].options, .target = "sm_91"}, "target", FACET_INVALID_ARGUMENT},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct facet_compile_job job;
        struct facet_error error = {0};

        assert_int_equal(make_job(&bad[i].options, &job, &error), bad[i].status);
        assert_string_equal(error.argument, bad[i].argument);
    }
    struct facet_compile_job job;
    assert_int_equal(facet_compile_job_init("", 0, NULL, &job, NULL), FACET_INVALID_ARGUMENT);
}

static void sources_are_known_by_their_first_bytes(void **state)
{
    static const struct {
        const char *bytes;
        uint32_t kind;
    } sources[] = {
        {"BC\xc0\xde.", FACET_SOURCE_LLVM_IR},
        {"\xde\xc0\x17\x0b", FACET_SOURCE_LLVM_IR},
        {"; ModuleID = 'k'\n", FACET_SOURCE_LLVM_IR},
        {"; a remark\n\ntarget triple = \"spir64\"\n", FACET_SOURCE_LLVM_IR},
        {"target datalayout = \"e\"", FACET_SOURCE_LLVM_IR},
        {"\x03\x02\x23\x07", FACET_SOURCE_SPIRV},
        {"\x07\x23\x02\x03", FACET_SOURCE_SPIRV},
        {"kernel void k() {}\n; ModuleID", FACET_SOURCE_OPENCL_C},
        {"// target triple\n", FACET_SOURCE_OPENCL_C},
        {"", FACET_SOURCE_OPENCL_C},
    };

    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++)
        assert_int_equal(facet_source_detect(sources[i].bytes, strlen(sources[i].bytes)), sources[i].kind);
}

/* Editors and other systems may put a byte order mark before a text. */
static void byte_order_marks_are_skipped_or_refused(void **state)
{
    static const char marked[] = "\xef\xbb\xbf" SOURCE, wide[] = "\xff\xfek\0e\0", other[] = "\xfe\xff\0k\0e";
    static const char module[] = "\xef\xbb\xbf; ModuleID = 'k'\n";
    struct facet_compile_job job;
    struct facet_error error = {0};

    assert_int_equal(facet_compile_job_init(marked, sizeof marked - 1, NULL, &job, NULL), FACET_OK);
    assert_int_equal(job.request.bytes, strlen(SOURCE));
    assert_memory_equal(job.request.source, SOURCE, strlen(SOURCE));
    assert_int_equal(facet_compile_job_init(module, sizeof module - 1, NULL, &job, NULL), FACET_OK);
    assert_int_equal(job.request.source_kind, FACET_SOURCE_LLVM_IR);
    assert_int_equal(facet_compile_job_init(marked, 3, NULL, &job, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "empty"));
    assert_int_equal(facet_compile_job_init(wide, sizeof wide, NULL, &job, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "UTF-16"));
    assert_int_equal(facet_compile_job_init(other, sizeof other, NULL, &job, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "UTF-16"));
}

static void compiled_code_is_refused_as_a_source(void **state)
{
    static const char *const codes[] = {"\177ELF....", "// made by hand\n.version 8.0\n.target sm_90\n"};
    struct facet_compile_job job;
    struct facet_error error = {0};

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        assert_int_equal(facet_compile_job_init(codes[i], strlen(codes[i]), NULL, &job, &error),
                         FACET_INVALID_ARGUMENT);
        assert_string_equal(error.argument, "source");
    }
}

/* If the length is impossible, for example a negative number as a size_t, not one byte of the source is read. */
static void absurd_lengths_are_out_of_range(void **state)
{
    static const size_t lengths[] = {FACET_COMPILE_BYTES_MOST + 1, (size_t)1 << 40, SIZE_MAX};
    struct facet_compile_options options = {.size = sizeof options, .source = FACET_SOURCE_OPENCL_C};
    void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(nowhere, MAP_FAILED);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct facet_error error = {0};
        struct facet_compile_job job;
        struct facet_image *image;
        char said[64];

        assert_int_equal(facet_compile_job_init(nowhere, lengths[i], &options, &job, &error), FACET_OUT_OF_RANGE);
        assert_string_equal(error.argument, "bytes");
        snprintf(said, sizeof said, "bytes %zu: expected at most 1073741824", lengths[i]);
        assert_string_equal(error.message, said);
        assert_int_equal(facet_image_parse(nowhere, lengths[i], &image, &error), FACET_OUT_OF_RANGE);
        assert_string_equal(error.argument, "size");
    }
    munmap(nowhere, 4096);
}

/* --- keys ------------------------------------------------------------------------------------------------------- */

static void write_key(const char *source, const struct facet_compile_options *options, uint64_t compiler, char text[33])
{
    struct facet_compile_job job;
    struct facet_cache_key key;

    assert_int_equal(facet_compile_job_init(source, strlen(source), options, &job, NULL), FACET_OK);
    assert_int_equal(facet_cache_key_make(&job, (XXH128_hash_t){compiler, 0}, &key, NULL), FACET_OK);
    facet_cache_key_print(&key, text);
    assert_int_equal(strlen(text), 32);
}

static void options_that_change_the_code_change_the_key(void **state)
{
    static const char *const one[] = {"-DN=4", NULL}, *const split[] = {"-D", "N=4", NULL};
    static const struct facet_compile_options options[] = {
        {.size = sizeof options[0]},
        {.size = sizeof options[0], .target = "sm_90"},
        {.size = sizeof options[0], .target = "host:x86-64-v3"},
        {.size = sizeof options[0], .optimize = FACET_OPTIMIZE(0)},
        {.size = sizeof options[0], .check = 1},
        {.size = sizeof options[0], .name = "other.cl"},
        {.size = sizeof options[0], .source = FACET_SOURCE_LLVM_IR},
        {.size = sizeof options[0], .arguments = one},
        {.size = sizeof options[0], .arguments = split},
    };
    enum { COUNT = sizeof options / sizeof options[0] };
    char keys[COUNT + 2][33], again[33];

    for (size_t i = 0; i < COUNT; i++)
        write_key("k", &options[i], 1, keys[i]);
    write_key("l", &options[0], 1, keys[COUNT]);
    write_key("k", &options[0], 2, keys[COUNT + 1]);
    for (size_t i = 0; i < COUNT + 2; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(keys[i], keys[j]);
    write_key("k", &options[0], 1, again);
    assert_string_equal(again, keys[0]);
}

static void the_environment_can_ask_for_checks(void **state)
{
    const struct facet_compile_options device = {.size = sizeof device, .target = "sm_90"};
    struct facet_compile_job job;
    struct facet_error error = {0};
    char keys[2][33];

    write_key("k", NULL, 1, keys[0]);
    setenv("FACET_CHECK", "1", 1);
    write_key("k", NULL, 1, keys[1]);
    assert_string_not_equal(keys[0], keys[1]);
    assert_int_equal(make_job(NULL, &job, NULL), FACET_OK);
    assert_int_equal(job.request.check, 1);
    assert_false(job.unchecked);
    assert_int_equal(make_job(&device, &job, NULL), FACET_OK);
    assert_int_equal(job.request.check, 0);
    assert_true(job.unchecked);
    setenv("FACET_CHECK", "yes", 1);
    assert_int_equal(make_job(NULL, &job, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "FACET_CHECK");
    unsetenv("FACET_CHECK");
    assert_int_equal(make_job(NULL, &job, NULL), FACET_OK);
    assert_int_equal(job.request.check, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(options_of_an_older_caller_are_read),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(sources_are_known_by_their_first_bytes),
        cmocka_unit_test(byte_order_marks_are_skipped_or_refused),
        cmocka_unit_test(compiled_code_is_refused_as_a_source),
        cmocka_unit_test(absurd_lengths_are_out_of_range),
        cmocka_unit_test(options_that_change_the_code_change_the_key),
        cmocka_unit_test(the_environment_can_ask_for_checks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
