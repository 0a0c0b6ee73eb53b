/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A registry over fakes, and functions that show whether a change happened everywhere or nowhere.
 *
 * Owns: starting and killing a registry, snapshots of the whole visible state, failing every step of a change.
 * Never: starts threads.
 */
#ifndef FACETD_TEST_REGISTRY_SETUP_H
#define FACETD_TEST_REGISTRY_SETUP_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_provider.h"
#include "fake_scheduler.h"

#define SETUP_UNUSED __attribute__((unused))

/* --- the registry under test ---------------------------------------------------------------------------------- */

static struct registry *registry;
SETUP_UNUSED static struct vgpu_removal removal; /* of the vGPU that was destroyed last */

static void start_registry(void)
{
    const struct registry_parts parts = {.scheduler = &scheduler};
    struct facet_error error = {0};

    if (registry_open(folder, folder, &parts, &registry, &error) != FACET_OK)
        fail_msg("%s", error.message);
}

/* Ends the registry as kill -9 would: nothing is notified, and everything on disk stays. */
static void stop_registry(void)
{
    registry_close(registry);
    registry = NULL;
    scheduler_clear();
}

SETUP_UNUSED static int set_up(void **state)
{
    fail_at = 0;
    make_devices();
    provider_reset();
    snprintf(folder, sizeof folder, "/tmp/facet-registry-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    start_registry();
    return 0;
}

SETUP_UNUSED static int tear_down(void **state)
{
    char command[128];

    fail_at = 0;
    stop_registry();
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static struct request request_of(const char *body)
{
    struct request request;
    struct facet_error error = {0};

    if (request_parse(body, strlen(body), REQUEST_ALL, &request, &error) != FACET_OK)
        fail_msg("%s", error.message);
    return request;
}

SETUP_UNUSED static struct vgpu_info create_vgpu(const char *body)
{
    struct request request = request_of(body);
    struct facet_error error = {0};
    struct vgpu_info info;

    if (registry_create(registry, &request, &info, &error) != FACET_OK)
        fail_msg("%s", error.message);
    return info;
}

SETUP_UNUSED static enum facet_status try_create_vgpu(const char *body, struct facet_error *error)
{
    struct request request = request_of(body);
    struct vgpu_info info;

    return registry_create(registry, &request, &info, error);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void append_folders(char *text, size_t size)
{
    char path[128], names[32][40];
    size_t count = 0;

    snprintf(path, sizeof path, "%s/vgpu", folder);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (entry->d_name[0] != '.' && count < 32)
            snprintf(names[count++], sizeof names[0], "%.39s", entry->d_name);
    closedir(dir);
    qsort(names, count, sizeof names[0], compare_texts);
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), size - strlen(text), " folder %s", names[i]);
}

/* Writes the whole visible state as a text: rows, folders, the provider's parts. Checks the scheduler's clients. */
static void snapshot(char *text, size_t size)
{
    struct vgpu_info *infos = NULL;
    size_t count = 0;

    text[0] = '\0';
    assert_int_equal(registry_list(registry, &infos, &count, NULL), FACET_OK);
    for (size_t i = 0; i < count; i++) {
        const struct client *client = client_of(infos[i].row.id);
        assert_non_null(client);
        assert_memory_equal(&client->limits, &infos[i].row.limits, sizeof client->limits);
        assert_int_equal(client->frozen, infos[i].row.frozen);
        snprintf(text + strlen(text), size - strlen(text), " %s=%s %llu %u %s", infos[i].row.name, infos[i].row.id,
                 (unsigned long long)infos[i].row.limits.memory_bytes, infos[i].row.limits.compute_request_milli,
                 vgpu_state_name(infos[i].state));
    }
    assert_int_equal(count, scheduler.count);
    free(infos);
    append_folders(text, size);
    provider_describe(text + strlen(text), size - strlen(text));
}

typedef enum facet_status (*act_func)(struct facet_error *error);

/* Makes each step of `act` fail in turn, until `act` succeeds. After each failure the state is as before, in memory and
 * on disk. `act` has at least `least_steps` steps. */
SETUP_UNUSED static void fail_every_step(act_func act, unsigned least_steps)
{
    char before[2048], after[2048];
    unsigned step = 0;
    enum facet_status status;

    snapshot(before, sizeof before);
    do {
        struct facet_error error = {0};
        assert_true(++step < 100);
        steps = 0;
        fail_at = step;
        status = act(&error);
        fail_at = 0;
        if (status == FACET_OK)
            break;
        assert_string_not_equal(error.message, "");
        snapshot(after, sizeof after);
        assert_string_equal(after, before);
        stop_registry();
        start_registry();
        snapshot(after, sizeof after);
        assert_string_equal(after, before);
    } while (true);
    assert_true(step > least_steps);
    snapshot(before, sizeof before);
    stop_registry();
    start_registry();
    snapshot(after, sizeof after);
    assert_string_equal(after, before);
}

#endif
