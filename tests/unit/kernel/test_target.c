/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of reading, completing and refusing the names of targets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/target.h"

static void names_are_completed(void **state)
{
    static const struct {
        const char *text, *name, *processor;
        enum facet_target_family family;
    } good[] = {
        /* what is given, its full name, and the processor and family in it */
        {"host", "host", "", FACET_TARGET_HOST},
        {"host:x86-64-v3", "host:x86-64-v3", "x86-64-v3", FACET_TARGET_HOST},
        {"host:znver5", "host:znver5", "znver5", FACET_TARGET_HOST},
        {"ptx:sm_90a", "ptx:sm_90a", "sm_90a", FACET_TARGET_PTX},
        {"sm_75", "ptx:sm_75", "sm_75", FACET_TARGET_PTX},
        {"gfx90a", "amdgcn:gfx90a", "gfx90a", FACET_TARGET_AMDGCN},
        {"amdgcn:gfx1250", "amdgcn:gfx1250", "gfx1250", FACET_TARGET_AMDGCN},
        {"spirv", "spirv:1.2", "1.2", FACET_TARGET_SPIRV},
        {"spirv:1.0", "spirv:1.0", "1.0", FACET_TARGET_SPIRV},
    };

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct facet_target target;
        char name[FACET_TARGET_SIZE];

        assert_int_equal(facet_target_read(good[i].text, &target, NULL), FACET_OK);
        assert_string_equal(target.name, good[i].name);
        assert_string_equal(target.processor, good[i].processor);
        assert_int_equal(target.family, good[i].family);
        assert_int_equal(facet_target_parse(good[i].text, name, sizeof name, NULL), FACET_OK);
        assert_string_equal(name, good[i].name);
    }
}

static void every_name_of_the_list_is_a_target(void **state)
{
    uint32_t count = 0;

    for (const char *name; (name = facet_target_name(count)); count++) {
        struct facet_target target;

        assert_int_equal(facet_target_read(name, &target, NULL), FACET_OK);
        assert_string_equal(target.name, name);
        assert_ptr_equal(strstr(name, facet_target_family_name(target.family)), name);
        assert_non_null(facet_target_about(count));
    }
    assert_true(count > 40);
    assert_null(facet_target_about(count));
}

static void unknown_targets_are_refused_by_name(void **state)
{
    static const struct {
        const char *text, *fragment;
    } bad[] = {
        {"ptx:sm_91", "did you mean 'ptx:sm_90'?"},
        {"sm_122", "did you mean 'ptx:sm_121'?"},
        {"sm_999", "did you mean 'ptx:sm_121'?"},
        {"ptx:sm_99999999999999999999999", "did you mean 'ptx:sm_121'?"},
        {"ptx:sm_85", "did you mean 'ptx:sm_75'?"},
        {"spirv:2.0", "did you mean 'spirv:1.2'?"},
        {"spirv:1.6", "did you mean 'spirv:1.2'?"},
        {"amd:sm_999", "is not known; expected host"},
        {"2.0", "is not known"},
        {"gfx90z", "did you mean 'amdgcn:gfx900'?"},
        {"hots", "did you mean 'host'?"},
        {"ptx", "expected host, ptx:sm_NN"},
        {"", "target '' is not known"},
        {"1.2", "is not known"},
        {"cuda", "target 'cuda' is not known"},
        {"host:", "is not known"},
        {"host:a b", "is not known"},
        {"evil\n\033[2J", "target 'evil??[2J'"},
        {"a very long name that goes on and on and on and on and on and on and on and on", "is not known"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct facet_error error = {0};
        char name[FACET_TARGET_SIZE] = "untouched";

        assert_int_equal(facet_target_parse(bad[i].text, name, sizeof name, &error), FACET_INVALID_ARGUMENT);
        assert_string_equal(name, "untouched");
        assert_string_equal(error.argument, "target");
        assert_non_null(strstr(error.message, bad[i].fragment));
    }
}

static void a_refusal_of_an_npu_names_the_missing_part(void **state)
{
    struct facet_error error = {0};
    char name[FACET_TARGET_SIZE];

    assert_int_equal(facet_target_parse("npu:ascend910b", name, sizeof name, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "'npu:ascend910b'"));
    assert_non_null(strstr(error.message, "missing"));
    assert_int_equal(facet_target_parse("npu", name, sizeof name, &error), FACET_UNSUPPORTED);
}

static void a_name_longer_than_the_buffer_is_refused(void **state)
{
    struct facet_error error = {0};
    char name[13] = "";

    assert_int_equal(facet_target_parse("gfx90a", name, sizeof name, &error), FACET_TOO_SMALL);
    assert_string_equal(name, "");
    assert_non_null(strstr(error.message, "14"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_completed),
        cmocka_unit_test(every_name_of_the_list_is_a_target),
        cmocka_unit_test(unknown_targets_are_refused_by_name),
        cmocka_unit_test(a_refusal_of_an_npu_names_the_missing_part),
        cmocka_unit_test(a_name_longer_than_the_buffer_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
