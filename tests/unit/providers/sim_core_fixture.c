/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the functions of sim_core_fixture.h, and the made-up engine. */
#include "sim_core_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <unistd.h>

struct engine_double engine_double;

enum facet_status sim_engine_open(struct facet_provider_instance *instance, struct facet_error *error)
{
    return FACET_OK;
}

void sim_engine_close(struct facet_provider_instance *instance)
{
}

bool sim_engine_uses_device(const struct facet_provider_instance *instance, uint32_t device)
{
    return engine_double.uses_device;
}

bool sim_engine_uses_partition(const struct facet_provider_instance *instance, const char *uuid)
{
    return engine_double.partition && strcmp(engine_double.partition, uuid) == 0;
}

bool sim_engine_uses_worker(const struct facet_provider_instance *instance, uint32_t device, const char *worker)
{
    return engine_double.worker && strcmp(engine_double.worker, worker) == 0;
}

void sim_engine_advance(struct facet_provider_instance *instance, uint64_t now_ns)
{
    assert_true(now_ns >= engine_double.advanced_ns); /* time never decreases */
    engine_double.advanced_ns = now_ns;
    if (now_ns >= engine_double.next_ns)
        engine_double.next_ns = UINT64_MAX;
}

uint64_t sim_engine_next(const struct facet_provider_instance *instance)
{
    return engine_double.next_ns;
}

void sim_engine_lose(struct facet_provider_instance *instance, uint32_t device)
{
    engine_double.lost++;
}

static void set_variable(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

enum facet_status try_open(const char *profile, const char *state, const char *faults,
                           struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    engine_double = (struct engine_double){.next_ns = UINT64_MAX};
    set_variable("FACET_SIM_PROFILE", profile);
    set_variable("FACET_SIM_STATE", state);
    set_variable("FACET_SIM_FAULTS", faults);
    set_variable("FACET_SIM_CLOCK", "stepped");
    return sim_device_ops.open(ret_instance, error);
}

struct facet_provider_instance *open_machine(const char *profile, const char *state, const char *faults)
{
    struct facet_provider_instance *instance = NULL;
    struct facet_error error = {0};

    if (try_open(profile, state, faults, &instance, &error) != FACET_OK)
        fail_msg("%s: %s", profile, error.message);
    return instance;
}

const char *make_folder(void)
{
    static char path[64];

    /* The folder is in memory where possible: on a disk the tests would wait for every fsync(). */
    snprintf(path, sizeof path, "%s/facet-sim-test-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(path));
    return path;
}

void remove_folder(const char *path)
{
    DIR *folder = opendir(path);

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            assert_int_equal(unlinkat(dirfd(folder), entry->d_name, 0), 0);
    closedir(folder);
    assert_int_equal(rmdir(path), 0);
}

const char *make_file(const char *text)
{
    static char path[96];
    FILE *file;

    snprintf(path, sizeof path, "%s/file.json", make_folder());
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

void remove_file(const char *path)
{
    char copy[96];

    snprintf(copy, sizeof copy, "%s", path);
    remove_folder(dirname(copy));
}

enum facet_status create_partition(struct facet_provider_instance *instance, uint32_t device, const char *template_id,
                                   uint32_t start, struct facet_partition_info *ret_info, struct facet_error *error)
{
    ret_info->size = sizeof *ret_info;
    return sim_partition_ops.create(instance, device, template_id, start, ret_info, error);
}

uint32_t list_partitions(struct facet_provider_instance *instance, uint32_t device,
                         struct facet_partition_info infos[64])
{
    uint32_t count = 0;
    struct facet_error error = {0};

    if (sim_partition_ops.list(instance, device, infos, sizeof *infos, 64, &count, &error) != FACET_OK)
        fail_msg("%s", error.message);
    return count;
}

uint32_t list_events(struct facet_provider_instance *instance, uint64_t after, struct facet_event events[256])
{
    uint32_t count = 0;

    assert_int_equal(sim_device_ops.events(instance, after, events, sizeof *events, 256, &count, NULL), FACET_OK);
    return count;
}
