/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked images (compiled with FACET_CHECK=1): each access is judged before it is made.
 *
 * Owns: finding accesses out of bounds and races, and the message that names the work-item, its access and the source
 * line.
 * Never: changes the results of a correct kernel. An access out of bounds is not made; an access in a race is.
 *
 * An allowed access lies in one allocation of the context, within the requested size, or in the group's local memory.
 * The image itself checks its variables and local arguments, and reports accesses outside of them.
 * Races are detected among the work-items of one group, between two of its barriers; the executor runs such a launch
 * one work-group at a time. Behind the launch its stream gets a job that fails with the finding, so the stream's state
 * shows it like any other failure.
 */
#include <stdlib.h>

#include "cpu.h"

#define FOUND_BY_IMAGE (FACET_CHECK_PRIVATE | FACET_CHECK_OUTSIDE) /* the image itself found the access wrong */
#define RECENT_RANGES  4u                                          /* a loop rarely uses more buffers */

struct checked_launch {
    struct facet_host_kernel kernel;          /* the executor's copy, which calls run_checked() */
    const struct facet_host_kernel *original; /* of the module */
    const struct cpu_module *module;
    struct cpu_queue *queue;
    uint32_t references;  /* of the launch, and of the job behind it; under the context's lock */
    uint32_t local_bytes; /* of the group: the kernel's and the launch's */
    uint32_t argument_bytes;
    cpu_done_func done;
    void *owner;

    const struct facet_host_group *group; /* the one that runs */
    uint64_t arguments;                   /* the argument block, which a kernel may read */
    struct cpu_shadow *shadow;
    /* A ring of memory of earlier accesses, which is not freed while the launch runs. */
    struct cpu_range recent_ranges[RECENT_RANGES];
    uint32_t recent_count;
    enum facet_status finding;
    char text[sizeof((struct facet_error *)NULL)->message];
};

static void drop_checked(struct checked_launch *checked_launch)
{
    pthread_mutex_t *lock = &checked_launch->queue->context->lock;

    pthread_mutex_lock(lock);
    bool last = --checked_launch->references == 0;
    pthread_mutex_unlock(lock);
    if (!last)
        return;
    cpu_shadow_free(checked_launch->shadow);
    free(checked_launch);
}

/* --- while it runs --- */

static void run_checked(const void *arguments, const struct facet_host_group *group)
{
    struct checked_launch *checked_launch = group->check;

    checked_launch->group = group;
    checked_launch->arguments = (uint64_t)arguments;
    cpu_shadow_forget(checked_launch->shadow);
    checked_launch->original->run(arguments, group);
}

static const char *name_of_access(uint32_t flags)
{
    return flags & FACET_CHECK_ATOMIC ? "atomic access" : flags & FACET_CHECK_WRITE ? "write" : "read";
}

static const char *name_of_memory(uint32_t flags)
{
    bool local = flags & FACET_CHECK_LOCAL;

    if (flags & FACET_CHECK_PRIVATE)
        return "private memory of one variable";
    if (flags & FACET_CHECK_OUTSIDE)
        return local ? "local memory of one variable or argument" : "constant memory of one variable";
    return local ? "local memory of its work-group" : "global memory of one allocation";
}

/* The work-item's global id, and where in the source it is. */
static int describe_site(const struct checked_launch *checked_launch, uint32_t item, uint32_t site, char *text,
                         size_t size)
{
    const struct facet_host_group *group = checked_launch->group;
    const struct facet_host_site *sites = checked_launch->module->image->sites;
    uint32_t local[3] = {item % group->group_size[0], item / group->group_size[0] % group->group_size[1],
                         item / group->group_size[0] / group->group_size[1]};
    uint32_t global[3];

    for (int i = 0; i < 3; i++)
        global[i] = group->offset[i] + group->group_id[i] * group->group_size[i] + local[i];
    char place[96] = "";
    if (sites && site < checked_launch->module->image->site_count && sites[site].line > 0) /* else not known */
        snprintf(place, sizeof place, "%.64s:%" PRIu32 ":%" PRIu32 ": ", sites[site].file, sites[site].line,
                 sites[site].column);
    return snprintf(text, size, "%skernel %s, work-item (%" PRIu32 ", %" PRIu32 ", %" PRIu32 "): ", place,
                    checked_launch->original->name, global[0], global[1], global[2]);
}

FACET_PRINTF(5, 6)
static void record_finding(struct checked_launch *checked_launch, enum facet_status status, uint32_t item,
                           uint32_t site, const char *format, ...)
{
    va_list arguments;

    if (checked_launch->finding != FACET_OK)
        return;
    checked_launch->finding = status;
    int length = describe_site(checked_launch, item, site, checked_launch->text, sizeof checked_launch->text);
    if (length < 0 || (size_t)length >= sizeof checked_launch->text)
        return;
    va_start(arguments, format);
    vsnprintf(checked_launch->text + length, sizeof checked_launch->text - (size_t)length, format, arguments);
    va_end(arguments);
}

static bool is_inside(uint64_t address, uint64_t bytes, uint64_t start, uint64_t size)
{
    return address >= start && address - start <= size && bytes <= size - (address - start);
}

static bool is_memory(struct checked_launch *checked_launch, uint64_t address, uint64_t bytes)
{
    struct cpu_space *space = &checked_launch->queue->context->space;
    struct cpu_range range;

    for (uint32_t i = 0; i < RECENT_RANGES; i++)
        if (is_inside(address, bytes, checked_launch->recent_ranges[i].at,
                      checked_launch->recent_ranges[i].end - checked_launch->recent_ranges[i].at))
            return true;
    pthread_rwlock_rdlock(&space->lock);
    bool has_bounds = cpu_space_bounds(space, address, &range);
    pthread_rwlock_unlock(&space->lock);
    if (!has_bounds || !is_inside(address, bytes, range.at, range.end - range.at))
        return false;
    checked_launch->recent_ranges[checked_launch->recent_count++ % RECENT_RANGES] = range;
    return true;
}

static bool is_allowed(struct checked_launch *checked_launch, uint64_t address, uint64_t bytes, uint32_t flags)
{
    if (bytes == 0)
        return true;
    if (flags & FACET_CHECK_LOCAL)
        return is_inside(address, bytes, (uint64_t)checked_launch->group->local, checked_launch->local_bytes);
    /* A generic pointer may lead to local memory, an argument, or a constant of the image. */
    if (is_inside(address, bytes, (uint64_t)checked_launch->group->local, checked_launch->local_bytes) ||
        (!(flags & FACET_CHECK_WRITE) &&
         is_inside(address, bytes, checked_launch->arguments, checked_launch->argument_bytes)))
        return true;
    return is_memory(checked_launch, address, bytes);
}

/* Whether the access reads a constant of the image: file-scope tables lie in the object itself. */
static bool is_constant(const struct checked_launch *checked_launch, uint64_t address, uint64_t bytes, uint32_t flags)
{
    return !(flags & (FACET_CHECK_WRITE | FACET_CHECK_ATOMIC | FACET_CHECK_LOCAL | FOUND_BY_IMAGE)) &&
           cpu_module_has(checked_launch->module, address, bytes);
}

static int check_access(void *check, const void *pointer, uint64_t bytes, uint32_t flags, uint32_t item, uint32_t site)
{
    struct checked_launch *checked_launch = check;
    uint64_t address = (uint64_t)pointer;

    if (flags & FOUND_BY_IMAGE || !is_allowed(checked_launch, address, bytes, flags)) {
        if (is_constant(checked_launch, address, bytes, flags))
            return 1;
        record_finding(checked_launch, FACET_OUT_OF_RANGE, item, site,
                       "%s of %" PRIu64 " bytes at %#" PRIx64 ": expected %s", name_of_access(flags), bytes, address,
                       name_of_memory(flags));
        return 0;
    }
    if (cpu_shadow_races(checked_launch->shadow, address, bytes, flags, item))
        record_finding(checked_launch, FACET_INVALID_ARGUMENT, item, site,
                       "%s of %" PRIu64 " bytes at %#" PRIx64
                       ": expected a barrier between it and another work-item's access",
                       name_of_access(flags), bytes, address);
    return 1;
}

static void check_barrier(void *check)
{
    cpu_shadow_forget(((struct checked_launch *)check)->shadow);
}

const struct facet_host_check cpu_check_functions = {
    .size = sizeof cpu_check_functions, .access = check_access, .barrier = check_barrier};

/* --- before and after the launch --- */

/* Called when the launch is complete. The next thread that synchronizes gets its finding. */
static void launch_done(void *owner)
{
    struct checked_launch *checked_launch = owner;
    struct cpu_queue *queue = checked_launch->queue;
    cpu_done_func done = checked_launch->done;
    void *done_owner = checked_launch->owner;

    pthread_mutex_lock(&queue->context->lock);
    if (checked_launch->finding != FACET_OK && queue->finding == FACET_OK) {
        queue->finding = checked_launch->finding;
        memcpy(queue->finding_text, checked_launch->text, sizeof queue->finding_text);
    }
    pthread_mutex_unlock(&queue->context->lock);
    drop_checked(checked_launch);
    done(done_owner);
}

static enum facet_status finding_of(void *owner)
{
    return ((const struct checked_launch *)owner)->finding;
}

static void finish_done(void *owner)
{
    drop_checked(owner);
}

static struct checked_launch *new_checked(struct cpu_queue *queue, const struct cpu_module *module,
                                          const struct facet_host_kernel *kernel, const struct facet_launch *launch)
{
    struct checked_launch *checked_launch = calloc(1, sizeof *checked_launch);

    if (!checked_launch)
        return NULL;
    checked_launch->shadow = cpu_shadow_create();
    if (!checked_launch->shadow) {
        free(checked_launch);
        return NULL;
    }
    checked_launch->kernel = *kernel;
    checked_launch->kernel.run = run_checked;
    checked_launch->original = kernel;
    checked_launch->module = module;
    checked_launch->queue = queue;
    checked_launch->local_bytes = kernel->local_bytes + launch->local_bytes;
    checked_launch->argument_bytes = kernel->argument_bytes;
    checked_launch->references = 2;
    return checked_launch;
}

enum facet_status cpu_checked_launch(struct cpu_queue *queue, const struct cpu_module *module,
                                     const struct facet_host_kernel *kernel, const struct facet_launch *launch,
                                     const void *arguments, cpu_done_func done, void *owner, struct facet_error *error)
{
    struct checked_launch *checked_launch = new_checked(queue, module, kernel, launch);

    if (!checked_launch)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory to check a launch");
    checked_launch->done = done;
    checked_launch->owner = owner;
    enum facet_status status =
        cpu_stream_launch(queue->stream, &checked_launch->kernel, launch, arguments, &cpu_check_functions,
                          checked_launch, launch_done, checked_launch, error);
    if (status != FACET_OK) {
        checked_launch->references = 1;
        drop_checked(checked_launch);
        return status;
    }
    /* Without this job synchronize still reports the finding. */
    if (cpu_stream_call(queue->stream, finding_of, finish_done, checked_launch, NULL) != FACET_OK)
        drop_checked(checked_launch);
    return FACET_OK;
}
