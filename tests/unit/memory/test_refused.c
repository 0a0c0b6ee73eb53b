/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that no function of facet/memory.h follows a pointer that is NULL: each is called with each of its
 * pointers NULL in turn and each `size` 0 in turn. Also that members which may be 0 or 1 take no other value.
 * Never: asserts the effect of a valid call.
 *
 * A function that is not in the table fails the last test, which reads the header.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/memory.h>
#include <facet/session.h>

#define MIB   (UINT64_C(1) << 20)
#define BYTES 4096u

static struct {
    struct facet_memory *memory;
    struct facet_space *space;
    uint64_t address;
    struct facet_error error;
} subject;

/* As in vgpu/refused.h, `wrong` is the number of the pointer that is NULL, or of the struct whose size is 0. */
#define AT(number, pointer)  (wrong == (number) ? NULL : (pointer))
#define SIZE(number, object) (wrong == (number) ? 0 : (uint32_t)sizeof(object))
#define MEMORY               AT(0, subject.memory)
#define SPACE                AT(0, subject.space)
#define ERROR                (&subject.error)

/* ---- memories and spaces ---- */

static enum facet_status memory_open_host(int wrong)
{
    const struct facet_memory_config config = {.size = SIZE(1, config), .memory_bytes = MIB};
    struct facet_memory *memory = NULL;
    enum facet_status status = facet_memory_open_host(AT(2, &config), AT(0, &memory), ERROR);

    facet_memory_close(memory);
    return status;
}

/* The session is never used, because an earlier argument is refused. */
static enum facet_status memory_open_device(int wrong)
{
    const struct facet_memory_config config = {.size = SIZE(3, config)};
    struct facet_session *session = (struct facet_session *)&subject;
    struct facet_memory *memory = NULL;

    return wrong < 0 ? FACET_OK : facet_memory_open_device(AT(0, session), 0, 0, AT(2, &config), AT(1, &memory), ERROR);
}

static enum facet_status memory_close(int wrong)
{
    if (wrong == 0)
        facet_memory_close(NULL);
    return FACET_OK;
}

static enum facet_status space_create(int wrong)
{
    const struct facet_space_config config = {.size = SIZE(3, config), .limit_bytes = MIB, .name = AT(4, "other")};
    struct facet_space *space = NULL;
    enum facet_status status = facet_space_create(MEMORY, AT(2, &config), AT(1, &space), ERROR);

    assert_int_equal(facet_space_destroy(space, NULL), FACET_OK);
    return status;
}

static enum facet_status space_destroy(int wrong)
{
    return wrong == 0 ? facet_space_destroy(NULL, ERROR) : FACET_OK;
}

static enum facet_status space_set_limit(int wrong)
{
    return facet_space_set_limit(SPACE, MIB, ERROR);
}

/* ---- allocations ---- */

static enum facet_status space_allocate(int wrong)
{
    const struct facet_allocation_options options = {.size = SIZE(2, options)};
    uint64_t address;

    return facet_space_allocate(SPACE, BYTES, AT(3, &options), AT(1, &address), ERROR);
}

static enum facet_status space_free(int wrong)
{
    return facet_space_free(SPACE, wrong == 1 ? 0 : subject.address, ERROR);
}

static enum facet_status space_resize(int wrong)
{
    uint64_t address;

    return facet_space_resize(SPACE, subject.address, BYTES, AT(1, &address), ERROR);
}

static enum facet_status space_find(int wrong)
{
    struct facet_allocation allocation = {.size = SIZE(2, allocation)};

    return facet_space_find(SPACE, subject.address, AT(1, &allocation), ERROR);
}

static enum facet_status space_copy(int wrong)
{
    char bytes[64] = {0};

    return facet_space_copy(SPACE, subject.address, (uintptr_t)AT(1, &bytes), sizeof bytes, FACET_COPY_TO_DEVICE,
                            ERROR);
}

static enum facet_status space_fill(int wrong)
{
    return facet_space_fill(SPACE, subject.address, 0, BYTES, ERROR);
}

static enum facet_status space_pin(int wrong)
{
    struct facet_pin *pin = NULL;
    enum facet_status status = facet_space_pin(SPACE, AT(1, &subject.address), 1, 0, AT(2, &pin), ERROR);

    facet_pin_release(pin);
    return status;
}

static enum facet_status pin_release(int wrong)
{
    if (wrong == 0)
        facet_pin_release(NULL);
    return FACET_OK;
}

/* ---- order and numbers ---- */

static enum facet_status space_defragment(int wrong)
{
    const struct facet_defragment_options options = {.size = SIZE(1, options)};
    struct facet_defragment_report report = {.size = SIZE(2, report)};

    return facet_space_defragment(SPACE, AT(3, &options), AT(4, &report), ERROR);
}

static enum facet_status memory_defragment(int wrong)
{
    const struct facet_defragment_options options = {.size = SIZE(1, options)};
    struct facet_defragment_report report = {.size = SIZE(2, report)};

    return facet_memory_defragment(MEMORY, AT(3, &options), AT(4, &report), ERROR);
}

static enum facet_status space_compact(int wrong)
{
    const struct facet_defragment_options options = {.size = SIZE(1, options)};
    struct facet_defragment_report report = {.size = SIZE(2, report)};

    return facet_space_compact(SPACE, AT(3, &options), AT(4, &report), ERROR);
}

static enum facet_status space_get_usage(int wrong)
{
    struct facet_space_usage usage = {.size = SIZE(2, usage)};

    return facet_space_get_usage(SPACE, AT(1, &usage), ERROR);
}

static enum facet_status space_reserved_bytes(int wrong)
{
    return facet_space_reserved_bytes(SPACE) > 0 ? FACET_OK : FACET_INVALID_ARGUMENT;
}

static enum facet_status memory_get_usage(int wrong)
{
    struct facet_memory_usage usage = {.size = SIZE(2, usage)};

    return facet_memory_get_usage(MEMORY, AT(1, &usage), ERROR);
}

static enum facet_status space_unusable(int wrong)
{
    uint32_t milli;

    return facet_space_unusable(SPACE, BYTES, AT(1, &milli), ERROR);
}

static enum facet_status space_page(int wrong)
{
    struct facet_page page = {.size = SIZE(2, page)};

    return facet_space_page(SPACE, subject.address, AT(1, &page), ERROR);
}

/* ---- the table ---- */

/* The first `refused` wrong arguments are FACET_INVALID_ARGUMENT; with the rest, up to `wrong_count`, the call
 * succeeds. */
struct function {
    const char *name;
    enum facet_status (*call)(int wrong);
    int refused, wrong_count;
};

#define FUNCTION(name, refused, wrong_count)                                                                           \
    {                                                                                                                  \
        "facet_" #name, name, refused, wrong_count                                                                     \
    }

static const struct function functions[] = {
    FUNCTION(memory_open_host, 3, 3),
    FUNCTION(memory_open_device, 4, 4),
    FUNCTION(memory_close, 0, 1),
    FUNCTION(space_create, 4, 5),
    FUNCTION(space_destroy, 0, 1),
    FUNCTION(space_set_limit, 1, 1),
    FUNCTION(space_allocate, 3, 4),
    FUNCTION(space_free, 1, 2),
    FUNCTION(space_resize, 2, 2),
    FUNCTION(space_find, 3, 3),
    FUNCTION(space_copy, 2, 2),
    FUNCTION(space_fill, 1, 1),
    FUNCTION(space_pin, 3, 3),
    FUNCTION(pin_release, 0, 1),
    FUNCTION(space_defragment, 3, 5),
    FUNCTION(memory_defragment, 3, 5),
    FUNCTION(space_compact, 3, 5),
    FUNCTION(space_get_usage, 3, 3),
    FUNCTION(space_reserved_bytes, 1, 1),
    FUNCTION(memory_get_usage, 3, 3),
    FUNCTION(space_unusable, 2, 2),
    FUNCTION(space_page, 3, 3),
};
#define FUNCTIONS (sizeof functions / sizeof *functions)

static void set_up_subject(void)
{
    const struct facet_memory_config config = {.size = sizeof config, .memory_bytes = 16 * MIB};
    const struct facet_space_config space = {.size = sizeof space, .limit_bytes = 8 * MIB};

    assert_int_equal(facet_memory_open_host(&config, &subject.memory, ERROR), FACET_OK);
    assert_int_equal(facet_space_create(subject.memory, &space, &subject.space, ERROR), FACET_OK);
    assert_int_equal(facet_space_allocate(subject.space, BYTES, NULL, &subject.address, ERROR), FACET_OK);
}

static void test_null_is_refused_by_name(void **state)
{
    const struct function *function = *state;

    set_up_subject();
    for (int wrong = 0; wrong < function->wrong_count; wrong++) {
        subject.error = (struct facet_error){.argument = "?"};
        enum facet_status status = function->call(wrong), expected = FACET_OK;

        if (wrong < function->refused)
            expected = FACET_INVALID_ARGUMENT;
        if (status != expected)
            fail_msg("%s(), wrong argument %d: %s", function->name, wrong, facet_status_name(status));
        if (status != FACET_OK && !subject.error.argument[0])
            fail_msg("%s(), wrong argument %d: '%s' does not name the argument", function->name, wrong,
                     subject.error.message);
    }
    if (function->call(-1) != FACET_OK)
        fail_msg("%s() with valid arguments: %s", function->name, subject.error.message);
    facet_memory_close(subject.memory);
}

static void test_members_of_0_or_1_take_nothing_else(void **state)
{
    struct facet_memory_config config = {.size = sizeof config, .memory_bytes = MIB, .automatic = 7};
    struct facet_memory *memory = NULL;

    (void)state;
    assert_int_equal(facet_memory_open_host(&config, &memory, ERROR), FACET_OUT_OF_RANGE);
    assert_string_equal(subject.error.argument, "automatic");
    config.automatic = 0;
    config.commit = 2;
    assert_int_equal(facet_memory_open_host(&config, &memory, ERROR), FACET_OUT_OF_RANGE);
    assert_string_equal(subject.error.argument, "commit");
    assert_null(memory);
}

/* The name of a declared function is the word before the parenthesis. */
static void test_no_function_is_forgotten(void **state)
{
    static char text[1 << 16];
    char path[4096];
    size_t found = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/memory.h", getenv("FACET_TEST_HEADERS"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (char *at = strstr(text, "\nFACET_API"); at; at = strstr(at + 1, "\nFACET_API"), found++) {
        char *open = strchr(at, '('), *name = open;
        size_t known = 0;

        assert_non_null(open);
        while (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z'))
            name--;
        *open = '\0';
        while (known < FUNCTIONS && strcmp(functions[known].name, name) != 0)
            known++;
        if (known == FUNCTIONS)
            fail_msg("%s() is not in this test's table", name);
        *open = '(';
    }
    assert_int_equal(found, FUNCTIONS);
}

int main(void)
{
    struct CMUnitTest tests[FUNCTIONS + 2];

    for (size_t i = 0; i < FUNCTIONS; i++)
        tests[i] = (struct CMUnitTest){.name = functions[i].name,
                                       .test_func = test_null_is_refused_by_name,
                                       .initial_state = (void *)&functions[i]};
    tests[FUNCTIONS] = (struct CMUnitTest)cmocka_unit_test(test_members_of_0_or_1_take_nothing_else);
    tests[FUNCTIONS + 1] = (struct CMUnitTest)cmocka_unit_test(test_no_function_is_forgotten);
    return cmocka_run_group_tests_name("memory/refused", tests, NULL, NULL);
}
