/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: for test_refused.c, a call of each function of a driver or a balancer with one argument wrong, and the list of
 * those calls that must be refused. Never: asserts.
 */
#ifndef VGPU_REFUSED_H
#define VGPU_REFUSED_H

#include "world.h"

#include <facet/balance.h>
#include <facet/monitor.h>

#define BYTES 4096u

/* The valid arguments: a call gets them for all arguments except the wrong one. */
static struct {
    uint64_t address;
    void *managed;
    struct facet_kernel *kernel;
    uint64_t execution;
    struct facet_balancer *balancer; /* NULL: the function takes no balancer */
    uint64_t buffer;
} valid_arguments;

/* `wrong` is the number of the wrong argument of a call in the table: that pointer is NULL, or that struct's size 0. */
#define AT(number, pointer)  (wrong == (number) ? NULL : (pointer))
#define SIZE(number, object) (wrong == (number) ? 0 : (uint32_t)sizeof(object))
#define DRIVER               AT(0, world.driver)
#define BALANCER             AT(0, valid_arguments.balancer)

static void ignore_event(void *owner, const struct facet_watch_event *event)
{
    (void)owner;
    (void)event;
}

/* ---- the driver and its vGPUs ---- */

static enum facet_status driver_open(int wrong)
{
    struct facet_driver_config config = world_config();
    struct facet_driver *driver = NULL;

    config.size = SIZE(1, config);
    enum facet_status status = facet_driver_open(&config, AT(0, &driver), ERROR);
    facet_driver_close(driver);
    return status;
}

/* Functions without a status return nothing or a bool. Each is called through a function that makes a status of it. */
static enum facet_status driver_close(int wrong)
{
    if (wrong == 0)
        facet_driver_close(NULL);
    return FACET_OK;
}

static enum facet_status driver_get_config(int wrong)
{
    struct facet_driver_config config = {.size = SIZE(2, config)};

    facet_driver_get_config(DRIVER, AT(1, &config));
    return FACET_OK;
}

static enum facet_status driver_get_device(int wrong)
{
    struct facet_driver_device device = {.size = SIZE(2, device)};

    return facet_driver_get_device(DRIVER, 0, AT(1, &device)) ? FACET_OK : FACET_INVALID_ARGUMENT;
}

static enum facet_status vgpu_create(int wrong)
{
    const struct facet_vgpu_config config = {.size = SIZE(1, config), .memory_bytes = MIB};
    uint32_t id;

    return facet_vgpu_create(DRIVER, AT(2, &config), AT(3, &id), ERROR);
}

static enum facet_status vgpu_destroy(int wrong)
{
    return facet_vgpu_destroy(DRIVER, 1, ERROR);
}

static enum facet_status vgpu_get_status(int wrong)
{
    uint32_t status;

    return facet_vgpu_get_status(DRIVER, 1, AT(1, &status), ERROR);
}

static enum facet_status vgpu_pause(int wrong)
{
    return facet_vgpu_pause(DRIVER, 1, ERROR);
}

static enum facet_status vgpu_resume(int wrong)
{
    return facet_vgpu_resume(DRIVER, 1, ERROR);
}

static enum facet_status vgpu_get_info(int wrong)
{
    struct facet_vgpu_info info = {.size = SIZE(2, info)};

    return facet_vgpu_get_info(DRIVER, 1, AT(1, &info), ERROR);
}

static enum facet_status vgpu_list(int wrong)
{
    struct facet_vgpu_info info = {.size = SIZE(2, info)};
    uint32_t count;

    return facet_vgpu_list(DRIVER, AT(3, &info), 1, AT(1, &count), ERROR);
}

/* ---- memory ---- */

static enum facet_status vgpu_allocate(int wrong)
{
    const struct facet_allocation_options options = {.size = SIZE(3, options)};
    uint64_t address;

    return facet_vgpu_allocate(DRIVER, 1, BYTES, AT(2, &options), AT(1, &address), ERROR);
}

static enum facet_status vgpu_free(int wrong)
{
    return facet_vgpu_free(DRIVER, 1, valid_arguments.address, ERROR);
}

static enum facet_status vgpu_reallocate(int wrong)
{
    uint64_t address;

    return facet_vgpu_reallocate(DRIVER, 1, valid_arguments.address, 2 * BYTES, AT(1, &address), ERROR);
}

static enum facet_status vgpu_find(int wrong)
{
    struct facet_allocation allocation = {.size = SIZE(2, allocation)};

    return facet_vgpu_find(DRIVER, 1, valid_arguments.address, AT(1, &allocation), ERROR);
}

static enum facet_status vgpu_copy(int wrong)
{
    char bytes[64] = {0};

    return facet_vgpu_copy(DRIVER, 1, valid_arguments.address, (uintptr_t)AT(1, &bytes), sizeof bytes,
                           FACET_COPY_TO_DEVICE, ERROR);
}

static enum facet_status vgpu_fill(int wrong)
{
    return facet_vgpu_fill(DRIVER, 1, valid_arguments.address, 0, BYTES, ERROR);
}

static enum facet_status vgpu_set_memory(int wrong)
{
    return facet_vgpu_set_memory(DRIVER, 1, 8 * MIB, ERROR);
}

static enum facet_status vgpu_get_memory(int wrong)
{
    struct facet_space_usage usage = {.size = SIZE(2, usage)};

    return facet_vgpu_get_memory(DRIVER, 1, AT(1, &usage), ERROR);
}

static enum facet_status vgpu_get_unusable(int wrong)
{
    uint32_t milli;

    return facet_vgpu_get_unusable(DRIVER, 1, BYTES, AT(1, &milli), ERROR);
}

static enum facet_status vgpu_get_page(int wrong)
{
    struct facet_page page = {.size = SIZE(2, page)};

    return facet_vgpu_get_page(DRIVER, 1, valid_arguments.address, AT(1, &page), ERROR);
}

static enum facet_status vgpu_pin(int wrong)
{
    uint64_t pin;

    return facet_vgpu_pin(DRIVER, 1, AT(1, &valid_arguments.address), 1, 0, AT(2, &pin), ERROR);
}

static enum facet_status vgpu_unpin(int wrong)
{
    return facet_vgpu_unpin(DRIVER, 1, 1, ERROR);
}

static enum facet_status vgpu_defragment(int wrong)
{
    const struct facet_defragment_options options = {.size = SIZE(1, options)};
    struct facet_defragment_report report = {.size = sizeof report};

    return facet_vgpu_defragment(DRIVER, 1, AT(2, &options), AT(3, &report), ERROR);
}

static enum facet_status vgpu_compact(int wrong)
{
    const struct facet_defragment_options options = {.size = SIZE(1, options)};
    struct facet_defragment_report report = {.size = sizeof report};

    return facet_vgpu_compact(DRIVER, 1, AT(2, &options), AT(3, &report), ERROR);
}

static enum facet_status vgpu_allocate_managed(int wrong)
{
    const struct facet_allocation_options options = {.size = SIZE(3, options)};
    void *pointer;

    return facet_vgpu_allocate_managed(DRIVER, 1, BYTES, AT(2, &options), AT(1, &pointer), ERROR);
}

static enum facet_status vgpu_get_managed(int wrong)
{
    struct facet_managed_usage usage = {.size = SIZE(2, usage)};

    return facet_vgpu_get_managed(DRIVER, 1, AT(3, valid_arguments.managed), AT(1, &usage), ERROR);
}

static enum facet_status vgpu_prefetch(int wrong)
{
    return facet_vgpu_prefetch(DRIVER, 1, AT(1, valid_arguments.managed), BYTES, true, ERROR);
}

/* ---- computing ---- */

static enum facet_status vgpu_load_kernel(int wrong)
{
    struct facet_kernel *kernel = NULL;
    enum facet_status status =
        facet_vgpu_load_kernel(DRIVER, 1, AT(1, world.image), AT(2, "add"), AT(3, &kernel), ERROR);

    facet_kernel_destroy(kernel);
    return status;
}

static enum facet_status vgpu_target(int wrong)
{
    const char *target;

    return facet_vgpu_target(DRIVER, 1, AT(1, &target), ERROR);
}

static enum facet_status vgpu_execute(int wrong)
{
    const struct facet_range range = {.size = SIZE(3, range), .dimensions = 1, .global = {1}, .group = {1}};
    uint64_t execution;

    return facet_vgpu_execute(DRIVER, 1, 0, AT(1, valid_arguments.kernel), AT(2, &range), AT(4, &execution), ERROR);
}

static enum facet_status vgpu_operate(int wrong)
{
    const struct facet_math operation = {.size = SIZE(2, operation),
                                         .operation = FACET_MATH_GEMM,
                                         .type = FACET_MATH_F32,
                                         .of.gemm = {.a = valid_arguments.address,
                                                     .b = valid_arguments.address + 1024,
                                                     .c = valid_arguments.address + 2048,
                                                     .m = 8,
                                                     .n = 8,
                                                     .k = 8,
                                                     .alpha = 1}};
    uint64_t execution;

    return facet_vgpu_operate(DRIVER, 1, 0, AT(1, &operation), AT(3, &execution), ERROR);
}

static enum facet_status vgpu_get_operations(int wrong)
{
    struct facet_math_support support = {.size = SIZE(2, support)};

    return facet_vgpu_get_operations(DRIVER, 1, AT(1, &support), ERROR);
}

static enum facet_status vgpu_enqueue_copy(int wrong)
{
    char bytes[64] = {0};
    uint64_t execution;

    return facet_vgpu_enqueue_copy(DRIVER, 1, 0, valid_arguments.address, (uintptr_t)AT(1, &bytes), sizeof bytes,
                                   FACET_COPY_TO_DEVICE, AT(2, &execution), ERROR);
}

static enum facet_status vgpu_enqueue_fill(int wrong)
{
    uint64_t execution;

    return facet_vgpu_enqueue_fill(DRIVER, 1, 0, valid_arguments.address, 0, BYTES, AT(1, &execution), ERROR);
}

static enum facet_status vgpu_get_execution(int wrong)
{
    struct facet_execution execution = {.size = SIZE(2, execution)};

    return facet_vgpu_get_execution(DRIVER, 1, valid_arguments.execution, AT(1, &execution), ERROR);
}

static enum facet_status vgpu_cancel(int wrong)
{
    return facet_vgpu_cancel(DRIVER, 1, valid_arguments.execution, ERROR);
}

static enum facet_status vgpu_synchronize(int wrong)
{
    return facet_vgpu_synchronize(DRIVER, 1, FACET_STREAM_ALL, WAIT_NS, ERROR);
}

static enum facet_status vgpu_query(int wrong)
{
    struct facet_stream_info info = {.size = SIZE(2, info)};

    return facet_vgpu_query(DRIVER, 1, 0, AT(1, &info), ERROR);
}

static enum facet_status vgpu_wait(int wrong)
{
    return facet_vgpu_wait(DRIVER, 1, 0, 1, ERROR);
}

static enum facet_status vgpu_set_stream_priority(int wrong)
{
    return facet_vgpu_set_stream_priority(DRIVER, 1, 0, FACET_PRIORITY_HIGH, ERROR);
}

static enum facet_status vgpu_set_share(int wrong)
{
    return facet_vgpu_set_share(DRIVER, 1, 100, 1000, ERROR);
}

static enum facet_status vgpu_set_priority(int wrong)
{
    return facet_vgpu_set_priority(DRIVER, 1, FACET_PRIORITY_HIGH, ERROR);
}

static enum facet_status vgpu_set_bounds(int wrong)
{
    return facet_vgpu_set_bounds(DRIVER, 1, 1, 1, ERROR);
}

static enum facet_status driver_set_policy(int wrong)
{
    return facet_driver_set_policy(DRIVER, 0, FACET_SCHEDULE_FAIR, true, 0, ERROR);
}

static enum facet_status vgpu_set_tensor_cores(int wrong)
{
    return facet_vgpu_set_tensor_cores(DRIVER, 1, false, ERROR);
}

static enum facet_status vgpu_set_mixed_precision(int wrong)
{
    return facet_vgpu_set_mixed_precision(DRIVER, 1, true, ERROR);
}

/* ---- monitoring ---- */

static enum facet_status vgpu_get_history(int wrong)
{
    struct facet_sample sample;
    uint32_t count = 1;

    return facet_vgpu_get_history(DRIVER, 1, 0, AT(2, &sample), AT(1, &count), ERROR);
}

static enum facet_status driver_get_history(int wrong)
{
    struct facet_sample sample;
    uint32_t count = 1;

    return facet_driver_get_history(DRIVER, 0, 0, AT(2, &sample), AT(1, &count), ERROR);
}

static enum facet_status driver_watch(int wrong)
{
    const struct facet_watch asked = {.size = SIZE(2, asked), .vgpu = 1, .told = wrong == 3 ? NULL : ignore_event};
    uint64_t watch;

    return facet_driver_watch(DRIVER, AT(1, &asked), AT(4, &watch), ERROR);
}

static enum facet_status driver_unwatch(int wrong)
{
    return facet_driver_unwatch(DRIVER, 7, ERROR);
}

/* ---- balancing ---- */

static const uint32_t members[] = {1};

static enum facet_status balancer_open(int wrong)
{
    const struct facet_balancer_config config = {.size = SIZE(3, config), .count = 1, .ids = AT(4, members)};
    struct facet_balancer *balancer = NULL;
    enum facet_status status = facet_balancer_open(DRIVER, AT(2, &config), AT(1, &balancer), ERROR);

    facet_balancer_close(balancer);
    return status;
}

static enum facet_status balancer_close(int wrong)
{
    if (wrong == 0)
        facet_balancer_close(NULL);
    return FACET_OK;
}

static enum facet_status balancer_allocate(int wrong)
{
    uint64_t buffer;

    return facet_balancer_allocate(BALANCER, BYTES, AT(1, &buffer), ERROR);
}

static enum facet_status balancer_free(int wrong)
{
    return facet_balancer_free(BALANCER, valid_arguments.buffer, ERROR);
}

static enum facet_status balancer_write(int wrong)
{
    uint64_t word = 0;

    return facet_balancer_write(BALANCER, valid_arguments.buffer, 0, AT(1, &word), sizeof word, ERROR);
}

static enum facet_status balancer_read(int wrong)
{
    uint64_t word;

    return facet_balancer_read(BALANCER, valid_arguments.buffer, 0, AT(1, &word), sizeof word, ERROR);
}

static enum facet_status balancer_submit(int wrong)
{
    const uint64_t value = 1;
    const struct facet_range range = {.size = SIZE(1, range), .dimensions = 1, .global = {1}, .group = {1}};
    const struct facet_balancer_argument arguments[] = {{.buffer = valid_arguments.buffer},
                                                        {.value = AT(2, &value), .bytes = sizeof value}};
    const struct facet_balancer_work work = {.size = SIZE(3, work),
                                             .image = AT(4, world.image),
                                             .kernel = AT(5, "add"),
                                             .range = AT(6, &range),
                                             .arguments = AT(7, arguments),
                                             .count = 2};
    uint64_t task;

    return facet_balancer_submit(BALANCER, AT(8, &work), AT(9, &task), ERROR);
}

static enum facet_status balancer_wait(int wrong)
{
    return facet_balancer_wait(BALANCER, FACET_BALANCER_ALL, WAIT_NS, ERROR);
}

static enum facet_status balancer_cancel(int wrong)
{
    return facet_balancer_cancel(BALANCER, 1, ERROR);
}

static enum facet_status balancer_get_task(int wrong)
{
    struct facet_balancer_task task = {.size = SIZE(2, task)};

    return facet_balancer_get_task(BALANCER, 1, AT(1, &task), ERROR);
}

static enum facet_status balancer_get_member(int wrong)
{
    struct facet_balancer_member member = {.size = SIZE(2, member)};

    return facet_balancer_get_member(BALANCER, 0, AT(1, &member), ERROR);
}

static enum facet_status balancer_get_actions(int wrong)
{
    struct facet_balancer_action action = {.size = SIZE(3, action)};
    uint32_t count;

    return facet_balancer_get_actions(BALANCER, 0, AT(2, &action), 1, AT(1, &count), ERROR);
}

/* ---- the table ---- */

/* Wrong arguments are numbered from 0. The first `refused` ones must be answered with FACET_INVALID_ARGUMENT. The next
 * ones, up to `wrong_count`, may get any answer, because most of these pointers may be NULL. */
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
    FUNCTION(driver_open, 2, 2),
    FUNCTION(driver_close, 0, 1),
    FUNCTION(driver_get_config, 0, 3),
    FUNCTION(driver_get_device, 3, 3),
    FUNCTION(vgpu_create, 2, 4),
    FUNCTION(vgpu_destroy, 1, 1),
    FUNCTION(vgpu_get_status, 2, 2),
    FUNCTION(vgpu_pause, 1, 1),
    FUNCTION(vgpu_resume, 1, 1),
    FUNCTION(vgpu_get_info, 3, 3),
    FUNCTION(vgpu_list, 4, 4),
    FUNCTION(vgpu_allocate, 2, 4),
    FUNCTION(vgpu_free, 1, 1),
    FUNCTION(vgpu_reallocate, 2, 2),
    FUNCTION(vgpu_find, 3, 3),
    FUNCTION(vgpu_copy, 2, 2),
    FUNCTION(vgpu_fill, 1, 1),
    FUNCTION(vgpu_set_memory, 1, 1),
    FUNCTION(vgpu_get_memory, 3, 3),
    FUNCTION(vgpu_get_unusable, 2, 2),
    FUNCTION(vgpu_get_page, 3, 3),
    FUNCTION(vgpu_pin, 3, 3),
    FUNCTION(vgpu_unpin, 1, 1),
    FUNCTION(vgpu_defragment, 2, 4),
    FUNCTION(vgpu_compact, 2, 4),
    FUNCTION(vgpu_allocate_managed, 2, 4),
    FUNCTION(vgpu_get_managed, 3, 4),
    FUNCTION(vgpu_prefetch, 1, 2),
    FUNCTION(vgpu_load_kernel, 4, 4),
    FUNCTION(vgpu_target, 2, 2),
    FUNCTION(vgpu_execute, 4, 5),
    FUNCTION(vgpu_operate, 3, 4),
    FUNCTION(vgpu_get_operations, 3, 3),
    FUNCTION(vgpu_enqueue_copy, 2, 3),
    FUNCTION(vgpu_enqueue_fill, 1, 2),
    FUNCTION(vgpu_get_execution, 3, 3),
    FUNCTION(vgpu_cancel, 1, 1),
    FUNCTION(vgpu_synchronize, 1, 1),
    FUNCTION(vgpu_query, 3, 3),
    FUNCTION(vgpu_wait, 1, 1),
    FUNCTION(vgpu_set_stream_priority, 1, 1),
    FUNCTION(vgpu_set_share, 1, 1),
    FUNCTION(vgpu_set_priority, 1, 1),
    FUNCTION(vgpu_set_bounds, 1, 1),
    FUNCTION(driver_set_policy, 1, 1),
    FUNCTION(vgpu_set_tensor_cores, 1, 1),
    FUNCTION(vgpu_set_mixed_precision, 1, 1),
    FUNCTION(vgpu_get_history, 3, 3),
    FUNCTION(driver_get_history, 3, 3),
    FUNCTION(driver_watch, 4, 5),
    FUNCTION(driver_unwatch, 1, 1),
    FUNCTION(balancer_open, 5, 5),
    FUNCTION(balancer_close, 0, 1),
    FUNCTION(balancer_allocate, 2, 2),
    FUNCTION(balancer_free, 1, 1),
    FUNCTION(balancer_write, 2, 2),
    FUNCTION(balancer_read, 2, 2),
    FUNCTION(balancer_submit, 9, 10),
    FUNCTION(balancer_wait, 1, 1),
    FUNCTION(balancer_cancel, 1, 1),
    FUNCTION(balancer_get_task, 3, 3),
    FUNCTION(balancer_get_member, 3, 3),
    FUNCTION(balancer_get_actions, 4, 4),
};
#define FUNCTIONS (sizeof functions / sizeof *functions)

#endif
