/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof that `facet metrics` shows the vGPUs of programs that publish them, and only of those that live.
 * Never: asserts how long anything takes. */
#include "world.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/facet-publish-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("FACET_RUNTIME_DIR", folder, 1);
    return world_load(state);
}

static int remove_folder(void **state)
{
    char path[128];

    snprintf(path, sizeof path, "%s/drivers", folder);
    rmdir(path);
    rmdir(folder);
    return world_unload(state);
}

/* The number of files in the drivers' folder whose names end with `end`. */
static int count_files(const char *end)
{
    char path[128];
    struct dirent *entry;
    int count = 0;

    snprintf(path, sizeof path, "%s/drivers", folder);
    DIR *drivers = opendir(path);
    while (drivers && (entry = readdir(drivers))) {
        const char *dot = strrchr(entry->d_name, '.');

        count += dot && dot != entry->d_name && dot[1] && strcmp(dot, end) == 0;
    }
    if (drivers)
        closedir(drivers);
    return count;
}

/* Runs `facet metrics`; returns its exit status, and its output in `text`. */
static int read_metrics(char *text, size_t size)
{
    char command[8192];

    snprintf(command, sizeof command, "%s/facet metrics 2>/dev/null", getenv("FACET_LIB_DIR"));
    FILE *pipe = popen(command, "r");
    size_t length = pipe ? fread(text, 1, size - 1, pipe) : 0;

    text[length] = '\0';
    return pipe ? WEXITSTATUS(pclose(pipe)) : -1;
}

static void open_published(void)
{
    struct facet_driver_config config = world_config();

    config.publish = 1;
    world_open(&config);
}

/* Polls the metrics until they contain `wanted`. */
static bool metrics_say(const char *wanted)
{
    static char text[1 << 20];

    for (uint64_t waited = 0; waited < WAIT_NS; waited += 100 * MS) {
        if (read_metrics(text, sizeof text) == 0 && strstr(text, wanted))
            return true;
        nap(100 * MS);
    }
    print_message("%s", text);
    return false;
}

static void published_numbers_are_shown(void **state)
{
    static char text[1 << 20];
    char expected[256];

    assert_int_not_equal(read_metrics(text, sizeof text), 0); /* there is no daemon, and no driver publishes */
    open_published();
    vgpu_make(1);
    vgpu_make(2);
    struct facet_kernel *add = vgpu_kernel(1, "add", vgpu_memory(1, MIB), 1);
    for (int i = 0; i < 5; i++)
        vgpu_launch(1, 0, add, 100);
    vgpu_finish(1);
    snprintf(expected, sizeof expected,
             "facet_library_vgpu_launches_total{pid=\"%d\",driver=\"0\",program=\"test_vgpu_publi\",vgpu=\"1\",name="
             "\"vgpu-1\",device="
             "\"cpu:0\"} 5\n",
             (int)getpid());
    assert_true(metrics_say(expected));
    read_metrics(text, sizeof text);
    assert_non_null(strstr(text, "# TYPE facet_library_vgpu_launches_total counter\n"));
    assert_non_null(strstr(text, "name=\"vgpu-2\",device=\"cpu:0\"} 16777216\n"));
    assert_non_null(strstr(text, "facet_library_device_vgpus{"));
    assert_int_equal(count_files(".json"), 1);
    facet_kernel_destroy(add);
    world_close();
    assert_int_equal(count_files(".json") + count_files(".lock") + count_files(".new"), 0);
}

/* Two drivers of one process publish separately. */
static void drivers_publish_side_by_side(void **state)
{
    struct facet_driver_config config = world_config();
    struct facet_driver *other = NULL;

    open_published();
    config.publish = 1;
    OK(facet_driver_open(&config, &other, ERROR));
    assert_int_equal(count_files(".lock"), 2);
    facet_driver_close(other);
    assert_int_equal(count_files(".lock"), 1);
    world_close();
}

/* A driver may have one device twice; then each has series of its own. */
static void a_device_present_twice_is_two(void **state)
{
    struct facet_driver_config config = world_config();
    const char *const devices[] = {"cpu:0", "cpu:0", NULL};

    config.devices = devices;
    config.publish = 1;
    world_open(&config);
    assert_true(metrics_say("index=\"0\"} 0\nfacet_library_device_vgpus{"));
    assert_true(metrics_say("index=\"1\"} 0\n"));
    world_close();
}

static void files_of_a_killed_process_are_removed(void **state)
{
    static char text[1 << 20];
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* in case the test ends first */
        open_published();
        vgpu_make(1);
        for (;;)
            pause();
    }
    for (uint64_t waited = 0; waited < WAIT_NS && count_files(".json") == 0; waited += MS)
        nap(MS);
    assert_int_equal(count_files(".json"), 1);
    assert_int_equal(read_metrics(text, sizeof text), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_not_equal(read_metrics(text, sizeof text), 0);
    assert_int_equal(count_files(".json") + count_files(".lock"), 0);
}

/* Unusable files in the folder do not make the command fail. */
static void unusable_files_are_ignored(void **state)
{
    static const char *const names[] = {"1-0.json", "x.lock", "1-1.lock", "..lock"};
    static char text[1 << 20];
    char path[256];

    open_published();
    vgpu_make(1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/drivers/%s", folder, names[i]);
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        fputs("{\"pid\":[],\"vgpus\":{}}", file);
        fclose(file);
    }
    snprintf(path, sizeof path, "%s/drivers/1-2.lock", folder);
    assert_int_equal(mkfifo(path, 0600), 0); /* no process reads its other end */
    assert_true(metrics_say("facet_library_vgpu_memory_limit_bytes{"));
    world_close();
    read_metrics(text, sizeof text);
    unlink(path);
    /* Files with a driver's name and no lock are removed; other files stay. */
    assert_int_equal(count_files(".lock"), 2);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/drivers/%s", folder, names[i]);
        unlink(path);
    }
    assert_int_equal(count_files(".lock") + count_files(".json"), 0);
}

static void put_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A faulty program publishes impossible numbers: they are not shown as 0, and a message names the member. */
static void impossible_numbers_are_left_out_and_reported(void **state)
{
    static const char text[] =
        "{\"pid\":1,\"program\":\"wild\",\"devices\":[{\"id\":\"cpu:0\",\"name\":\"x\",\"lost\":0,"
        "\"units\":1,\"vgpus\":0,\"memory_bytes\":-5,\"memory_used_bytes\":0,"
        "\"promised_bytes\":0}],\"vgpus\":[]}";
    static char shown[1 << 16];
    char lock[256], path[256], command[512];

    open_published();
    vgpu_make(1);
    assert_true(metrics_say("facet_library_vgpu_memory_limit_bytes{"));
    snprintf(path, sizeof path, "%s/drivers/%d-7.json", folder, (int)getpid());
    snprintf(lock, sizeof lock, "%s/drivers/%d-7.lock", folder, (int)getpid());
    put_text(path, text);
    int fd = open(lock, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    snprintf(command, sizeof command, "%s/facet metrics 2>&1", getenv("FACET_LIB_DIR"));
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    shown[fread(shown, 1, sizeof shown - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
    assert_non_null(strstr(shown, "devices[0].memory_bytes"));
    assert_null(strstr(shown, "program=\"wild\""));
    assert_non_null(strstr(shown, "facet_library_vgpu_memory_limit_bytes{"));
    close(fd);
    unlink(path);
    unlink(lock);
    world_close();
}

/* In such a folder another user could put files, or read private data. */
static void nothing_is_published_where_other_users_may_write(void **state)
{
    static char text[1 << 20];
    struct facet_driver_config config = world_config();
    struct facet_driver *driver = NULL;
    struct facet_error error;

    config.publish = 1;
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(facet_driver_open(&config, &driver, &error), FACET_PERMISSION);
    assert_non_null(strstr(error.message, folder));
    assert_int_equal(read_metrics(text, sizeof text), 1);
    assert_int_equal(chmod(folder, 0700), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_numbers_are_shown),
        cmocka_unit_test(drivers_publish_side_by_side),
        cmocka_unit_test(a_device_present_twice_is_two),
        cmocka_unit_test(files_of_a_killed_process_are_removed),
        cmocka_unit_test(unusable_files_are_ignored),
        cmocka_unit_test(impossible_numbers_are_left_out_and_reported),
        cmocka_unit_test(nothing_is_published_where_other_users_may_write),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
