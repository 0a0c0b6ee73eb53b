/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that a call which is refused for its arguments holds nothing: each function of a driver or a
 * balancer is called with each pointer NULL in turn and each `size` 0 in turn, and then all is ended.
 * Never: asserts what a call does that is right.
 *
 * A function that is not in the table fails the last test, which reads the headers.
 */
#include "refused.h"

/* ---- each of them ---- */

static void *end_all(void *unused)
{
    (void)unused;
    facet_balancer_close(have.balancer);
    (void)facet_vgpu_destroy(world.driver, 1, NULL); /* one test has destroyed it */
    facet_driver_close(world.driver);
    return NULL;
}

/* What waits for ever cannot be ended: so the program is. */
static void end_in_time(const char *name)
{
    struct timespec until;
    pthread_t thread;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(WAIT_NS / (1000 * MS));
    assert_int_equal(pthread_create(&thread, NULL, end_all, NULL), 0);
    if (pthread_timedjoin_np(thread, NULL, &until) != 0) {
        print_error("after calls of %s() that were refused not all could be ended\n", name);
        _exit(1);
    }
    world.driver = NULL;
}

static void prepare(bool balanced)
{
    const struct facet_balancer_config config = {.size = sizeof config, .count = 1, .ids = members};

    world_set_up(NULL);
    vgpu_make(1);
    have.address = vgpu_memory(1, BYTES);
    have.kernel = vgpu_kernel(1, "add", have.address, 1);
    have.execution = vgpu_launch(1, 0, have.kernel, 1);
    have.managed = NULL;
    if (facet_vgpu_allocate_managed(world.driver, 1, BYTES, NULL, &have.managed, ERROR) != FACET_OK)
        assert_null(have.managed); /* no userfaultfd here */
    vgpu_finish(1);
    have.balancer = NULL;
    if (!balanced)
        return;
    OK(facet_balancer_open(world.driver, &config, &have.balancer, ERROR));
    OK(facet_balancer_allocate(have.balancer, BYTES, &have.buffer, ERROR));
}

static void what_is_refused_holds_nothing(void **state)
{
    const struct function *function = *state;

    prepare(strstr(function->name, "_balancer_"));
    for (int wrong = 0; wrong < function->wrongs; wrong++) {
        enum facet_status status = function->call(wrong);

        if (wrong < function->refused && status != FACET_INVALID_ARGUMENT)
            fail_msg("%s(), wrong argument %d: %s", function->name, wrong, facet_status_name(status));
    }
    if (function->call(-1) == FACET_INVALID_ARGUMENT)
        fail_msg("%s(), nothing wrong: %s", function->name, world.error.message);
    facet_kernel_destroy(have.kernel);
    end_in_time(function->name);
}

/* ---- all of them ---- */

static bool is_tested(const char *name, size_t length)
{
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (strlen(functions[i].name) == length && strncmp(functions[i].name, name, length) == 0)
            return true;
    return false;
}

static bool has(const char *start, const char *end, const char *text)
{
    return memmem(start, (size_t)(end - start), text, strlen(text)) != NULL;
}

/* A declaration's name is what stands before its parenthesis. */
static size_t check_declarations(const char *text)
{
    size_t found = 0;

    for (const char *at = strstr(text, "\nFACET_API"); at; at = strstr(at + 1, "\nFACET_API")) {
        const char *open = strchr(at, '('), *end = strchr(at, ';'), *name = open;

        assert_true(open && end && open < end);
        if (!has(at, end, "struct facet_driver *") && !has(at, end, "struct facet_balancer *"))
            continue;
        while (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z'))
            name--;
        found++;
        if (!is_tested(name, (size_t)(open - name)))
            fail_msg("%.*s() is not in this test's table", (int)(open - name), name);
    }
    return found;
}

static void no_function_is_forgotten(void **state)
{
    static const char *const headers[] = {"balance.h", "compute.h", "monitor.h", "vgpu.h"};
    static char text[1 << 17];
    size_t found = 0;

    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        char path[4096];

        snprintf(path, sizeof path, "%s/%s", getenv("FACET_TEST_HEADERS"), headers[i]);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        size_t size = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[size] = '\0';
        found += check_declarations(text);
    }
    assert_int_equal(found, FUNCTIONS);
}

int main(void)
{
    struct CMUnitTest tests[FUNCTIONS + 1];

    for (size_t i = 0; i < FUNCTIONS; i++)
        tests[i] = (struct CMUnitTest){.name = functions[i].name,
                                       .test_func = what_is_refused_holds_nothing,
                                       .initial_state = (void *)&functions[i]};
    tests[FUNCTIONS] = (struct CMUnitTest)cmocka_unit_test(no_function_is_forgotten);
    return cmocka_run_group_tests_name("vgpu/refused", tests, world_load, world_unload);
}
