/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that a call which is refused for its arguments keeps no lock or reference. Each function of a driver
 * or a balancer is called with each pointer NULL in turn and each `size` 0 in turn; then everything must be closable.
 * Further proofs: numbers that are in no enum are refused, and each function reports a lost device. Never: asserts the
 * effect of a valid call.
 *
 * The last test reads the headers and fails if a function is missing in the table.
 */
#include "refused.h"

#include <signal.h>

/* ---- each function ---- */

static void *end_all(void *unused)
{
    (void)unused;
    facet_balancer_close(valid_arguments.balancer);
    (void)facet_vgpu_destroy(world.driver, 1, NULL); /* fails in the test that has destroyed it */
    facet_driver_close(world.driver);
    return NULL;
}

/* A call that waits forever cannot be ended, so the program ends. */
static void end_in_time(const char *name)
{
    struct timespec until;
    pthread_t thread;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(WAIT_NS / (1000 * MS));
    assert_int_equal(pthread_create(&thread, NULL, end_all, NULL), 0);
    if (pthread_timedjoin_np(thread, NULL, &until) != 0) {
        print_error("after refused calls of %s(), closing balancer, vGPU and driver did not return\n", name);
        _exit(1);
    }
    world.driver = NULL;
}

static void prepare_vgpu(uint32_t place)
{
    struct facet_driver_config config = world_config();

    config.place = place;
    world_open(&config);
    vgpu_make(1);
    valid_arguments.address = vgpu_memory(1, BYTES);
    valid_arguments.kernel = vgpu_kernel(1, "add", valid_arguments.address, 1);
    valid_arguments.execution = vgpu_launch(1, 0, valid_arguments.kernel, 1);
    valid_arguments.managed = NULL;
    if (facet_vgpu_allocate_managed(world.driver, 1, BYTES, NULL, &valid_arguments.managed, ERROR) != FACET_OK)
        assert_null(valid_arguments.managed); /* there is no userfaultfd */
    vgpu_finish(1);
    valid_arguments.balancer = NULL;
}

static void prepare_balancer(void)
{
    const struct facet_balancer_config config = {.size = sizeof config, .count = 1, .ids = members};

    OK(facet_balancer_open(world.driver, &config, &valid_arguments.balancer, ERROR));
    OK(facet_balancer_allocate(valid_arguments.balancer, BYTES, &valid_arguments.buffer, ERROR));
}

static void a_refused_call_holds_nothing(void **state)
{
    const struct function *function = *state;

    prepare_vgpu(world_config().place);
    if (strstr(function->name, "_balancer_"))
        prepare_balancer();
    for (int wrong = 0; wrong < function->wrong_count; wrong++) {
        enum facet_status status = function->call(wrong);

        if (wrong < function->refused && status != FACET_INVALID_ARGUMENT)
            fail_msg("%s(), wrong argument %d: %s", function->name, wrong, facet_status_name(status));
        if (wrong < function->refused && function->call != driver_get_device && !world.error.argument[0])
            fail_msg("%s(), wrong argument %d: '%s' does not name the argument", function->name, wrong,
                     world.error.message);
    }
    if (function->call(-1) == FACET_INVALID_ARGUMENT)
        fail_msg("%s() with valid arguments: %s", function->name, world.error.message);
    facet_kernel_destroy(valid_arguments.kernel);
    end_in_time(function->name);
}

/* ---- numbers ---- */

#define ABSURD_VALUE 99

/* The argument that a refused call named; "" if it named none, or was not refused as invalid. */
static const char *refused_argument(enum facet_status status)
{
    static char argument[sizeof world.error.argument];

    snprintf(argument, sizeof argument, "%s",
             status == FACET_INVALID_ARGUMENT || status == FACET_OUT_OF_RANGE ? world.error.argument : "");
    world.error.argument[0] = '\0';
    return argument;
}

#define REFUSED_FOR(name, call) assert_string_equal(refused_argument(call), name)

static enum facet_status submit_task(uint32_t priority, uint32_t access)
{
    const uint64_t value = 1;
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {1}, .group = {1}};
    const struct facet_balancer_argument arguments[] = {{.buffer = valid_arguments.buffer, .access = access},
                                                        {.value = &value, .bytes = sizeof value}};
    const struct facet_balancer_work work = {.size = sizeof work,
                                             .priority = priority,
                                             .image = world.image,
                                             .kernel = "add",
                                             .range = &range,
                                             .arguments = arguments,
                                             .count = 2};

    return facet_balancer_submit(valid_arguments.balancer, &work, NULL, ERROR);
}

static void numbers_of_no_enum_are_refused(void **state)
{
    const struct facet_watch watch = {.size = sizeof watch, .vgpu = 1, .told = ignore_event, .below = 2};
    struct facet_balancer_config config = {.size = sizeof config, .count = 1, .ids = members, .strategy = ABSURD_VALUE};
    struct facet_balancer *other = NULL;
    char byte = 0;

    prepare_vgpu(world_config().place);
    prepare_balancer();
    const uint64_t at = valid_arguments.address, host = (uintptr_t)&byte;
    REFUSED_FOR("priority", facet_vgpu_set_priority(world.driver, 1, ABSURD_VALUE, ERROR));
    REFUSED_FOR("priority", facet_vgpu_set_stream_priority(world.driver, 1, 0, ABSURD_VALUE, ERROR));
    REFUSED_FOR("policy", facet_driver_set_policy(world.driver, 0, ABSURD_VALUE, true, 0, ERROR));
    REFUSED_FOR("kind", facet_vgpu_copy(world.driver, 1, at, host, 1, (enum facet_copy)ABSURD_VALUE, ERROR));
    REFUSED_FOR("kind",
                facet_vgpu_enqueue_copy(world.driver, 1, 0, at, host, 1, (enum facet_copy)ABSURD_VALUE, NULL, ERROR));
    REFUSED_FOR("watch", facet_driver_watch(world.driver, &watch, NULL, ERROR));
    REFUSED_FOR("strategy", facet_balancer_open(world.driver, &config, &other, ERROR));
    config.strategy = 0;
    config.actions = UINT32_C(1) << 20;
    REFUSED_FOR("actions", facet_balancer_open(world.driver, &config, &other, ERROR));
    REFUSED_FOR("work", submit_task(ABSURD_VALUE, 0));
    REFUSED_FOR("arguments", submit_task(0, ABSURD_VALUE));
    OK(submit_task(0, 0));
    facet_kernel_destroy(valid_arguments.kernel);
    end_in_time("all");
}

static void settings_of_no_enum_are_refused(void **state)
{
    static const char *const names[] = {"place", "policy", "scaling", "publish", "automatic", "commit"};
    struct facet_driver *driver = NULL;

    for (int wrong = 0; wrong < 6; wrong++) {
        struct facet_driver_config config = world_config();

        config.place = wrong == 0 ? 7 : config.place;
        config.policy = wrong == 1 ? 7 : 0;
        config.scaling = wrong == 2 ? 7 : 0;
        config.publish = wrong == 3 ? 7 : 0;
        world.memory.automatic = wrong == 4 ? 7 : 0;
        world.memory.commit = wrong == 5 ? 7 : 0;
        REFUSED_FOR(names[wrong], facet_driver_open(&config, &driver, ERROR));
    }
    assert_null(driver);
}

/* Without virtual memory, only the driver checks a copy's arguments. */
static void copies_without_a_space_are_refused_alike(void **state)
{
    struct facet_driver_config config = world_config();
    char byte = 0;

    config.off = FACET_OFF_MEMORY;
    world_open(&config);
    OK(facet_vgpu_create(world.driver, NULL, NULL, ERROR));
    uint64_t at = vgpu_memory(1, BYTES);
    REFUSED_FOR("kind",
                facet_vgpu_copy(world.driver, 1, at, (uintptr_t)&byte, 1, (enum facet_copy)ABSURD_VALUE, ERROR));
    REFUSED_FOR("from", facet_vgpu_copy(world.driver, 1, at, 0, 1, FACET_COPY_TO_DEVICE, ERROR));
    REFUSED_FOR("to", facet_vgpu_copy(world.driver, 1, 0, at, 1, FACET_COPY_TO_HOST, ERROR));
    world_close();
}

/* ---- a device that is lost ---- */

/* Whether a function needs the device. Others, which read a vGPU's known state, succeed without it. */
static bool needs_the_device(const char *name)
{
    static const char *const known[] = {"facet_vgpu_create",   "facet_vgpu_destroy",     "facet_vgpu_get_history",
                                        "facet_vgpu_get_info", "facet_vgpu_get_managed", "facet_vgpu_get_status",
                                        "facet_vgpu_list",     "facet_vgpu_target"};
    bool found = strncmp(name, "facet_vgpu_", 11) == 0 || strcmp(name, "facet_driver_set_policy") == 0;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found = found && strcmp(name, known[i]) != 0;
    return found;
}

static void every_function_says_that_the_device_is_lost(void **state)
{
    prepare_vgpu(FACET_SESSION_CHILD);
    kill(world_child(), SIGKILL);
    REFUSED(FACET_DEVICE_LOST, facet_vgpu_fill(world.driver, 1, valid_arguments.address, 0, 1, ERROR));
    for (size_t i = 0; i < FUNCTIONS; i++) {
        enum facet_status status = needs_the_device(functions[i].name) ? functions[i].call(-1) : FACET_DEVICE_LOST;

        if (status != FACET_DEVICE_LOST)
            fail_msg("%s(): %s", functions[i].name, facet_status_name(status));
    }
    assert_int_equal(vgpu_info(1).status, FACET_VGPU_ERROR);
    facet_kernel_destroy(valid_arguments.kernel);
    end_in_time("all");
}

/* ---- completeness of the table ---- */

static bool is_tested(const char *name, size_t length)
{
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (strlen(functions[i].name) == length && strncmp(functions[i].name, name, length) == 0)
            return true;
    return false;
}

static bool holds_text(const char *start, const char *end, const char *text)
{
    return memmem(start, (size_t)(end - start), text, strlen(text)) != NULL;
}

/* A declaration's name is the word before its parenthesis. */
static size_t check_declarations(const char *text)
{
    size_t found = 0;

    for (const char *at = strstr(text, "\nFACET_API"); at; at = strstr(at + 1, "\nFACET_API")) {
        const char *open = strchr(at, '('), *end = strchr(at, ';'), *name = open;

        assert_true(open && end && open < end);
        if (!holds_text(at, end, "struct facet_driver *") && !holds_text(at, end, "struct facet_balancer *"))
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
    const struct CMUnitTest others[] = {
        cmocka_unit_test(numbers_of_no_enum_are_refused),
        cmocka_unit_test(settings_of_no_enum_are_refused),
        cmocka_unit_test(copies_without_a_space_are_refused_alike),
        cmocka_unit_test(every_function_says_that_the_device_is_lost),
        cmocka_unit_test(no_function_is_forgotten),
    };
    struct CMUnitTest tests[FUNCTIONS + sizeof others / sizeof *others];

    for (size_t i = 0; i < FUNCTIONS; i++)
        tests[i] = (struct CMUnitTest){.name = functions[i].name,
                                       .test_func = a_refused_call_holds_nothing,
                                       .initial_state = (void *)&functions[i]};
    memcpy(tests + FUNCTIONS, others, sizeof others);
    return cmocka_run_group_tests_name("vgpu/refused", tests, world_load, world_unload);
}
