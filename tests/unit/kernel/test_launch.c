/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of ranges and of typed launches. Their provider only records its calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <facet/session.h>

#include "kernel/image.h"
#include "kernel/range.h"

#define IMAGE                                                                                                          \
    ".version 8.0\n// facet: {\"target\": \"sm_90\", \"kernels\": ["                                                   \
    "{\"name\": \"blur\", \"argument_bytes\": 40, \"local_bytes\": 100, \"arguments\": ["                              \
    "{\"name\": \"a\", \"type\": \"float\", \"kind\": \"value\", \"offset\": 0, \"bytes\": 4},"                        \
    "{\"name\": \"x\", \"type\": \"float*\", \"kind\": \"global\", \"offset\": 8, \"bytes\": 8},"                      \
    "{\"name\": \"t\", \"type\": \"float*\", \"kind\": \"local\", \"offset\": 16, \"bytes\": 4},"                      \
    "{\"name\": \"u\", \"type\": \"float*\", \"kind\": \"local\", \"offset\": 24, \"bytes\": 8},"                      \
    "{\"name\": \"s\", \"type\": \"sampler_t\", \"kind\": \"sampler\", \"offset\": 32, \"bytes\": 4}]},"               \
    "{\"name\": \"tile\", \"argument_bytes\": 0, \"required_group_size\": [8, 8, 1], \"arguments\": []},"              \
    "{\"name\": \"wide\", \"argument_bytes\": 4097, \"arguments\": []}]}\n"

/* A checked image for the host. For each local argument, 8 bytes of the block hold two numbers: where its memory
 * begins, and how many bytes were set. */
#define CHECKED                                                                                                        \
    ".version 8.0\n// facet: {\"target\": \"host:znver4\", \"check\": true, \"kernels\": ["                            \
    "{\"name\": \"sum\", \"argument_bytes\": 16, \"local_bytes\": 100, \"arguments\": ["                               \
    "{\"name\": \"t\", \"type\": \"int*\", \"kind\": \"local\", \"offset\": 0, \"bytes\": 8},"                         \
    "{\"name\": \"u\", \"type\": \"int*\", \"kind\": \"local\", \"offset\": 8, \"bytes\": 8}]}]}\n"

/* --- the provider ----------------------------------------------------------------------------------------------- */

static struct {
    unsigned loads, unloads, launches;
    size_t bytes; /* the image's size */
    enum facet_status answer;
    struct facet_launch launch;
    unsigned char arguments[64];
} seen;

static enum facet_status fake_load(struct facet_provider_instance *instance, uint64_t context, const void *image,
                                   uint64_t bytes, uint64_t *ret_module, struct facet_error *error)
{
    assert_int_equal(context, 7);
    assert_int_equal(bytes, seen.bytes);
    seen.loads++;
    if (seen.answer == FACET_OK)
        *ret_module = 42;
    return seen.answer;
}

static enum facet_status fake_unload(struct facet_provider_instance *instance, uint64_t context, uint64_t module,
                                     struct facet_error *error)
{
    assert_int_equal(module, 42);
    seen.unloads++;
    return FACET_OK;
}

static enum facet_status fake_launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     const struct facet_launch *launch, const void *arguments,
                                     struct facet_error *error)
{
    assert_int_equal(context, 7);
    assert_int_equal(stream, 9);
    seen.launches++;
    seen.launch = *launch;
    assert_true(launch->argument_bytes <= sizeof seen.arguments);
    memcpy(seen.arguments, arguments, launch->argument_bytes);
    return seen.answer;
}

static const struct facet_execution_ops execution = {
    .size = sizeof execution, .load = fake_load, .unload = fake_unload, .launch = fake_launch};
static const struct facet_provider provider = {.size = sizeof provider, .execution = &execution};

/* This and the next function replace those of the session, which are not linked. */
const struct facet_provider *facet_session_provider(const struct facet_session *session)
{
    return &provider;
}

struct facet_provider_instance *facet_session_instance(const struct facet_session *session)
{
    return NULL;
}

static struct facet_session *any_session(void)
{
    static int something;

    return (struct facet_session *)(void *)&something;
}

static struct facet_kernel *load_from(const char *text, const char *name, enum facet_status expected,
                                      struct facet_error *error)
{
    struct facet_image *image = NULL;
    struct facet_kernel *kernel = NULL;

    seen.bytes = strlen(text);
    assert_int_equal(facet_image_parse(text, strlen(text), &image, NULL), FACET_OK);
    assert_int_equal(facet_kernel_load(any_session(), 7, image, name, &kernel, error), expected);
    facet_image_destroy(image); /* a kernel works without its image */
    return kernel;
}

static struct facet_kernel *load_kernel(const char *name, enum facet_status expected, struct facet_error *error)
{
    return load_from(IMAGE, name, expected, error);
}

static int clear_seen(void **state)
{
    memset(&seen, 0, sizeof seen);
    return 0;
}

/* --- kernels ---------------------------------------------------------------------------------------------------- */

static void set_all(struct facet_kernel *kernel)
{
    assert_int_equal(facet_kernel_set_value(kernel, 0, &(float){2.5f}, 4, NULL), FACET_OK);
    assert_int_equal(facet_kernel_set_memory(kernel, 1, UINT64_C(0x123456789abcdef0), NULL), FACET_OK);
    assert_int_equal(facet_kernel_set_local(kernel, 2, 129, NULL), FACET_OK);
    assert_int_equal(facet_kernel_set_local(kernel, 3, 4, NULL), FACET_OK);
    assert_int_equal(facet_kernel_set_value(kernel, 4, &(uint32_t){0x11}, 4, NULL), FACET_OK);
}

static void a_launch_carries_all_arguments_and_sizes(void **state)
{
    struct facet_kernel *kernel = load_kernel("blur", FACET_OK, NULL);
    const struct facet_range range = {sizeof range, 2, {64, 6, 99}, {16, 2, 99}, {5, 0, 99}};
    float value;
    uint64_t address, second;
    uint32_t first, sampler;

    set_all(kernel);
    assert_int_equal(facet_kernel_launch(kernel, 9, &range, NULL), FACET_OK);
    assert_int_equal(seen.launch.size, sizeof seen.launch);
    assert_int_equal(seen.launch.module, 42);
    assert_string_equal(seen.launch.kernel, "blur");
    assert_int_equal(seen.launch.dimensions, 2);
    assert_memory_equal(seen.launch.grid, ((uint32_t[]){4, 3, 1}), 12);
    assert_memory_equal(seen.launch.group, ((uint32_t[]){16, 2, 1}), 12);
    assert_memory_equal(seen.launch.offset, ((uint32_t[]){5, 0, 0}), 12);
    assert_int_equal(seen.launch.argument_bytes, 40);
    assert_int_equal(seen.launch.local_bytes, 256 + 128); /* 129 and 4 bytes, each rounded up to a multiple of 128 */
    memcpy(&value, seen.arguments, 4);
    memcpy(&address, seen.arguments + 8, 8);
    memcpy(&first, seen.arguments + 16, 4);
    memcpy(&second, seen.arguments + 24, 8);
    memcpy(&sampler, seen.arguments + 32, 4);
    assert_true(value == 2.5f);
    assert_true(address == UINT64_C(0x123456789abcdef0));
    assert_int_equal(first, 0);
    assert_int_equal(second, 256);
    assert_int_equal(sampler, 0x11);
    facet_kernel_destroy(kernel);
    assert_int_equal(seen.unloads, 1);
    facet_kernel_destroy(NULL);
}

/* For each local argument, the launch carries the size that was set, although its memory is rounded up. */
static void a_checked_launch_says_how_long_local_memory_is(void **state)
{
    struct facet_kernel *kernel = load_from(CHECKED, "sum", FACET_OK, NULL);
    const struct facet_range range = {sizeof range, 1, {64}, {16}, {0}};

    assert_int_equal(facet_kernel_set_local(kernel, 0, 129, NULL), FACET_OK);
    assert_int_equal(facet_kernel_set_local(kernel, 1, 4, NULL), FACET_OK);
    assert_int_equal(facet_kernel_launch(kernel, 9, &range, NULL), FACET_OK);
    assert_int_equal(seen.launch.local_bytes, 256 + 128);
    assert_memory_equal(seen.arguments, ((uint32_t[]){0, 129, 256, 4}), 16);
    facet_kernel_destroy(kernel);
}

static void kernels_that_cannot_be_loaded_are_refused(void **state)
{
    struct facet_error error = {0};

    assert_null(load_kernel("sharpen", FACET_NOT_FOUND, &error));
    assert_non_null(strstr(error.message, "'sharpen'"));
    assert_non_null(strstr(error.message, "blur, tile, wide"));
    assert_null(load_kernel("wide", FACET_OUT_OF_RANGE, &error));
    assert_non_null(strstr(error.message, "4097"));
    assert_int_equal(seen.loads, 0);
    seen.answer = FACET_CORRUPT;
    assert_null(load_kernel("blur", FACET_CORRUPT, NULL));
    assert_int_equal(seen.unloads, 0);
}

static void arguments_of_a_wrong_kind_or_size_are_refused(void **state)
{
    struct facet_kernel *kernel = load_kernel("blur", FACET_OK, NULL);
    struct facet_error error = {0};

    assert_int_equal(facet_kernel_set_value(kernel, 0, &(double){1}, 8, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "float a"));
    assert_non_null(strstr(error.message, "8 bytes; expected 4"));
    assert_int_equal(facet_kernel_set_value(kernel, 0, NULL, 4, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_kernel_set_value(kernel, 1, &(uint64_t){1}, 8, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "is a global memory; expected a value"));
    assert_int_equal(facet_kernel_set_memory(kernel, 0, 1, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_kernel_set_memory(kernel, 2, 1, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_kernel_set_local(kernel, 1, 1, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_kernel_set_local(kernel, 2, 0, &error), FACET_OUT_OF_RANGE);
    /* The size rounded up to the alignment is 2 GiB, more than a launch may have. */
    assert_int_equal(facet_kernel_set_local(kernel, 2, FACET_HOST_LOCAL_MOST + 1, &error), FACET_OUT_OF_RANGE);
    assert_non_null(strstr(error.message, "2147483521 bytes of local memory; expected 1 to 2147483520"));
    assert_int_equal(facet_kernel_set_local(kernel, 2, FACET_HOST_LOCAL_MOST, &error), FACET_OK);
    assert_int_equal(facet_kernel_set_memory(kernel, 5, 1, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "less than 5"));
    facet_kernel_destroy(kernel);
}

static void nothing_is_launched_before_all_arguments_are_set(void **state)
{
    struct facet_kernel *kernel = load_kernel("blur", FACET_OK, NULL);
    struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {64}};
    struct facet_error error = {0};

    assert_int_equal(facet_kernel_launch(kernel, 9, &range, &error), FACET_BAD_STATE);
    assert_non_null(strstr(error.message, "argument 0 (float a)"));
    set_all(kernel);
    assert_int_equal(facet_kernel_launch(kernel, 9, NULL, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_kernel_set_local(kernel, 3, INT32_MAX - 128, NULL), FACET_OK);
    assert_int_equal(facet_kernel_launch(kernel, 9, &range, &error), FACET_OUT_OF_RANGE);
    assert_string_equal(error.argument, "local");
    assert_int_equal(facet_kernel_set_local(kernel, 3, 4, NULL), FACET_OK);
    range.global[0] = 0;
    assert_int_equal(facet_kernel_launch(kernel, 9, &range, &error), FACET_OUT_OF_RANGE);
    assert_int_equal(seen.launches, 0);
    range.global[0] = 64;
    seen.answer = FACET_NOT_FOUND;
    assert_int_equal(facet_kernel_launch(kernel, 9, &range, &error), FACET_NOT_FOUND);
    assert_int_equal(seen.launches, 1);
    facet_kernel_destroy(kernel);
}

/* --- ranges ----------------------------------------------------------------------------------------------------- */

static void chosen_groups_divide_the_range(void **state)
{
    static const struct {
        uint32_t global, group;
    } cases[] = {
        {1, 1},      {7, 7},     {64, 64},       {256, 256}, {1024, 256},    {960, 240},
        {1000, 250}, {100, 100}, {1 << 20, 256}, {257, 257}, {2 * 509, 509}, {8209, 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(facet_group_choose(cases[i].global, FACET_GROUP_CHOICE, FACET_HOST_GROUP_MOST),
                         cases[i].group);
}

static void group_sizes_of_zero_are_chosen(void **state)
{
    const struct facet_host_kernel any = {.name = "any"}, tile = {.name = "tile", .required_group_size = {8, 8, 1}};
    struct facet_range range = {.dimensions = 2, .global = {640, 480}};
    struct facet_grid grid;

    assert_int_equal(facet_range_resolve(&range, &any, &grid, NULL), FACET_OK);
    assert_true(grid.group[0] * grid.group[1] <= FACET_GROUP_CHOICE);
    assert_int_equal(grid.group[0] * grid.grid[0], 640);
    assert_int_equal(grid.group[1] * grid.grid[1], 480);
    assert_int_equal(grid.grid[2] * grid.group[2], 1);
    range.group[1] = 32;
    assert_int_equal(facet_range_resolve(&range, &any, &grid, NULL), FACET_OK);
    assert_int_equal(grid.group[0], 8);
    assert_int_equal(grid.group[1], 32);
    range.group[1] = 0;
    assert_int_equal(facet_range_resolve(&range, &tile, &grid, NULL), FACET_OK);
    assert_memory_equal(grid.group, ((uint32_t[]){8, 8, 1}), 12);
}

static void wrong_ranges_are_refused(void **state)
{
    static const struct {
        struct facet_range range;
        const char *argument;
    } bad[] = {
        /* each range has one fault, in the member `argument` */
        {{.dimensions = 1, .global = {UINT64_C(1) << 31}}, "global"},
        {{.dimensions = 2, .global = {4, 0}}, "global"},
        {{.dimensions = 1, .global = {100}, .group = {64}}, "global"},
        {{.dimensions = 1, .global = {8192}, .group = {8192}}, "group"},
        {{.dimensions = 3, .global = {64, 64, 64}, .group = {32, 32, 8}}, "group"},
        {{.dimensions = 2, .global = {UINT64_C(1) << 30, 4}, .group = {1 << 30, 4}}, "group"},
        {{.dimensions = 1, .global = {INT32_MAX}, .offset = {1}}, "offset"},
        {{.dimensions = 2, .global = {1 << 24, (1 << 24) + 1}, .group = {1, 1}}, "global"},
        {{.dimensions = 3, .global = {INT32_MAX, INT32_MAX, INT32_MAX}, .group = {1, 1, 1}}, "global"},
    };
    const struct facet_host_kernel any = {.name = "any"}, tile = {.name = "tile", .required_group_size = {8, 8, 1}};
    const struct facet_range most = {.dimensions = 2, .global = {1 << 24, 1 << 24}, .group = {1, 1}};
    struct facet_range range = {.dimensions = 0, .global = {8, 8}};
    struct facet_error error = {0};
    struct facet_grid grid;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(facet_range_resolve(&bad[i].range, &any, &grid, &error), FACET_OUT_OF_RANGE);
        assert_string_equal(error.argument, bad[i].argument);
        assert_non_null(strstr(error.message, "expected"));
    }
    assert_int_equal(facet_range_resolve(&most, &any, &grid, &error), FACET_OK);
    assert_int_equal(facet_range_resolve(&range, &any, &grid, &error), FACET_INVALID_ARGUMENT);
    range.dimensions = 4;
    assert_int_equal(facet_range_resolve(&range, &any, &grid, &error), FACET_INVALID_ARGUMENT);
    range.dimensions = 2;
    range.group[0] = 4;
    assert_int_equal(facet_range_resolve(&range, &tile, &grid, &error), FACET_OUT_OF_RANGE);
    assert_non_null(strstr(error.message, "kernel tile requires"));
    range = (struct facet_range){.dimensions = 1, .global = {8}};
    assert_int_equal(facet_range_resolve(&range, &tile, &grid, &error), FACET_OUT_OF_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_launch_carries_all_arguments_and_sizes, clear_seen),
        cmocka_unit_test_setup(a_checked_launch_says_how_long_local_memory_is, clear_seen),
        cmocka_unit_test_setup(kernels_that_cannot_be_loaded_are_refused, clear_seen),
        cmocka_unit_test_setup(arguments_of_a_wrong_kind_or_size_are_refused, clear_seen),
        cmocka_unit_test_setup(nothing_is_launched_before_all_arguments_are_set, clear_seen),
        cmocka_unit_test(chosen_groups_divide_the_range),
        cmocka_unit_test(group_sizes_of_zero_are_chosen),
        cmocka_unit_test(wrong_ranges_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
