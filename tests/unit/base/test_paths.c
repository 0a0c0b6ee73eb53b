/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of the folders that Facet uses. Each test has a folder of its own under /tmp. */
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/paths.h"
#include "base/private_group.h"

static char folder[64];

/* The path of an entry of the test's folder, valid until the fourth call after this one. */
static const char *in_folder(const char *name)
{
    static char path[4][256];
    static unsigned next;
    char *slot = path[next++ % 4];

    snprintf(slot, sizeof path[0], "%s/%s", folder, name);
    return slot;
}

static int set_up(void **state)
{
    static const char *const variables[] = {"FACET_RUNTIME_DIR", "FACET_STATE_DIR", "FACET_LIB_DIR", "XDG_RUNTIME_DIR",
                                            "XDG_STATE_HOME"};

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    setenv("HOME", "/home/nobody", 1);
    snprintf(folder, sizeof folder, "/tmp/facet-test-paths-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    return remove(path);
}

static int tear_down(void **state)
{
    return nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void assert_path(enum facet_status (*function)(char *, size_t, struct facet_error *), const char *expected)
{
    char path[FACET_PATH_SIZE];

    assert_int_equal(function(path, sizeof path, NULL), FACET_OK);
    assert_string_equal(path, expected);
}

static void settings_choose_the_folders(void **state)
{
    setenv("FACET_RUNTIME_DIR", "/r", 1);
    setenv("FACET_STATE_DIR", "/s", 1);
    assert_path(facet_path_runtime, "/r");
    assert_path(facet_path_state, "/s");
    assert_path(facet_path_root_state, "/s");
    assert_path(facet_path_socket, "/r/facetd.sock");
}

static void defaults_depend_on_the_user(void **state)
{
    char expected[64];

    if (geteuid() == 0) {
        setenv("XDG_RUNTIME_DIR", "/xdg", 1);
        assert_path(facet_path_runtime, "/run/facet");
        assert_path(facet_path_state, "/var/lib/facet");
        assert_path(facet_path_socket, "/run/facet/facetd.sock");
        if (seteuid(65534) < 0)
            skip();
        unsetenv("XDG_RUNTIME_DIR");
    }
    snprintf(expected, sizeof expected, "/tmp/facet-%lu", (unsigned long)geteuid());
    assert_path(facet_path_runtime, expected);
    assert_path(facet_path_state, "/home/nobody/.local/state/facet");
    setenv("XDG_RUNTIME_DIR", "/xdg", 1);
    setenv("XDG_STATE_HOME", "relative", 1);
    assert_path(facet_path_runtime, "/xdg/facet");
    assert_path(facet_path_state, "/home/nobody/.local/state/facet");
    setenv("XDG_STATE_HOME", "/state", 1);
    assert_path(facet_path_state, "/state/facet");
    assert_path(facet_path_root_state, "/var/lib/facet");
    assert_int_equal(seteuid(getuid()), 0);
}

static void relative_settings_are_refused(void **state)
{
    struct facet_error error;
    char path[64] = "untouched";

    setenv("FACET_RUNTIME_DIR", "run", 1);
    assert_int_equal(facet_path_socket(path, sizeof path, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "FACET_RUNTIME_DIR");
    assert_string_equal(path, "untouched");
}

static void a_path_that_does_not_fit_is_refused(void **state)
{
    char path[8] = "before", huge[2 * FACET_PATH_SIZE];

    setenv("FACET_RUNTIME_DIR", "/12345678", 1);
    assert_int_equal(facet_path_runtime(path, sizeof path, NULL), FACET_OUT_OF_RANGE);
    assert_string_equal(path, "before");
    memset(huge, 'x', sizeof huge - 1);
    huge[0] = '/';
    huge[sizeof huge - 1] = '\0';
    setenv("FACET_RUNTIME_DIR", huge, 1);
    assert_int_equal(facet_path_socket(huge, sizeof huge, NULL), FACET_OUT_OF_RANGE);
}

static void shipped_files_are_found_beside_the_program(void **state)
{
    char path[FACET_PATH_SIZE], program[FACET_PATH_SIZE] = "";
    struct facet_error error;

    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    assert_int_equal(facet_path_shipped("test_base_paths", path, sizeof path, NULL), FACET_OK);
    assert_string_equal(path, program);
    assert_int_equal(facet_path_shipped("no-such-file", path, sizeof path, &error), FACET_NOT_FOUND);
    assert_non_null(strstr(error.message, "no-such-file is neither in "));
    assert_non_null(strstr(error.message, FACET_PLUGIN_DIR));
    assert_non_null(strstr(error.message, "FACET_LIB_DIR names another folder"));
    assert_string_equal(path, program);
}

static void the_library_folder_is_the_only_place_when_it_is_set(void **state)
{
    char path[FACET_PATH_SIZE];
    struct facet_error error;

    setenv("FACET_LIB_DIR", folder, 1);
    assert_int_equal(facet_path_shipped("test_base_paths", path, sizeof path, &error), FACET_NOT_FOUND);
    assert_non_null(strstr(error.message, folder));
    int fd = open(in_folder("facetd"), O_CREAT | O_WRONLY, 0755);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(facet_path_shipped("facetd", path, sizeof path, NULL), FACET_OK);
    assert_string_equal(path, in_folder("facetd"));
}

static void folders_are_made_with_their_parents(void **state)
{
    struct stat info;

    assert_int_equal(facet_path_make(in_folder("a/b/c"), 0700, NULL), FACET_OK);
    assert_int_equal(stat(in_folder("a/b/c"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    assert_int_equal(stat(in_folder("a"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
}

static void an_existing_folder_is_kept_as_it_is(void **state)
{
    struct stat info;

    assert_int_equal(mkdir(in_folder("old"), 0750), 0);
    assert_int_equal(facet_path_make(in_folder("old"), 0700, NULL), FACET_OK);
    assert_int_equal(facet_path_make(in_folder("old/"), 0700, NULL), FACET_OK);
    assert_int_equal(stat(in_folder("old"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0750);
}

static void folders_that_others_may_write_are_refused(void **state)
{
    struct facet_error error;

    assert_int_equal(mkdir(in_folder("open"), 0700), 0);
    assert_int_equal(chmod(in_folder("open"), 0777), 0);
    assert_int_equal(facet_path_make(in_folder("open"), 0700, &error), FACET_PERMISSION);
    assert_int_equal(chmod(in_folder("open"), 01777), 0);
    assert_int_equal(facet_path_make(in_folder("open"), 0700, &error), FACET_PERMISSION);
    assert_non_null(strstr(error.message, "1777"));
}

/* A user who may write a folder on the way can exchange everything below it. */
static void folders_below_one_that_others_may_write_are_refused(void **state)
{
    struct facet_error error;

    assert_int_equal(facet_path_make(in_folder("open/ours/run"), 0700, NULL), FACET_OK);
    assert_int_equal(chmod(in_folder("open"), 0777), 0);
    assert_int_equal(facet_path_make(in_folder("open/ours/run"), 0700, &error), FACET_PERMISSION);
    assert_non_null(strstr(error.message, in_folder("open, which leads to ")));
    assert_non_null(strstr(error.message, "may be written by any user (mode 0777)"));
    assert_int_equal(facet_path_trust_folder(in_folder("open/ours/run"), NULL), FACET_PERMISSION);
    assert_int_equal(facet_path_make(in_folder("open/new"), 0700, NULL), FACET_PERMISSION);
    assert_int_equal(access(in_folder("open/new"), F_OK), -1);
    /* In a sticky folder every user may create files, but no user may remove or replace this user's folder. */
    assert_int_equal(chmod(in_folder("open"), 01777), 0);
    assert_int_equal(facet_path_make(in_folder("open/ours/run"), 0700, NULL), FACET_OK);
    assert_int_equal(facet_path_trust_folder(in_folder("open/ours/run"), NULL), FACET_OK);
}

static void folders_that_a_group_may_write_are_refused(void **state)
{
    struct facet_error error;

    assert_int_equal(facet_path_make(in_folder("shared/run"), 0700, NULL), FACET_OK);
    assert_int_equal(chmod(in_folder("shared/run"), 0770), 0);
    assert_int_equal(facet_path_make(in_folder("shared/run"), 0700, &error), FACET_PERMISSION);
    assert_non_null(strstr(error.message, "may be written by others (mode 0770)"));
    assert_int_equal(chmod(in_folder("shared/run"), 0700), 0);
    if (geteuid() != 0)
        skip();
    /* On the way, a user's private group does not count as other users. */
    assert_int_equal(chmod(in_folder("shared"), 0770), 0);
    assert_int_equal(facet_path_make(in_folder("shared/run"), 0700, NULL),
                     facet_private_group("", 0, 0) ? FACET_OK : FACET_PERMISSION);
    assert_int_equal(chown(in_folder("shared"), 0, 12345), 0);
    assert_int_equal(facet_path_make(in_folder("shared/run"), 0700, NULL), FACET_PERMISSION);
}

/* Replaces the file for this process alone. Returns false if the process may not mount. */
static bool replace_in_own_namespace(const char *path, const char *text)
{
    FILE *file = fopen(in_folder("instead"), "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount(in_folder("instead"), path, NULL, MS_BIND, NULL) == 0;
}

/* A user whose primary group is root's may write what the group may, although no list of members names the user. */
static void folders_of_a_group_that_another_user_has_as_primary_are_refused(void **state)
{
    int status = -1;

    assert_int_equal(facet_path_make(in_folder("shared/run"), 0700, NULL), FACET_OK);
    assert_int_equal(chmod(in_folder("shared"), 0770), 0);
    if (geteuid() != 0)
        skip();
    pid_t child = fork();
    if (child == 0) {
        if (!replace_in_own_namespace("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nmallory:x:1001:0::/:/bin/sh\n"))
            _exit(2);
        _exit(facet_path_make(in_folder("shared/run"), 0700, NULL) == FACET_PERMISSION ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void every_link_on_the_way_is_judged(void **state)
{
    struct facet_error error;

    assert_int_equal(facet_path_make(in_folder("a/b/run"), 0700, NULL), FACET_OK);
    assert_int_equal(symlink("b/../b", in_folder("a/near")), 0);
    assert_int_equal(symlink(in_folder("a/near"), in_folder("far")), 0);
    assert_int_equal(facet_path_trust_folder(in_folder("far/./run/"), NULL), FACET_OK);
    assert_int_equal(facet_path_trust_folder(in_folder("far/../b/run"), NULL), FACET_OK);
    assert_int_equal(facet_path_trust_folder("/", NULL), FACET_OK);
    assert_int_equal(symlink("loop", in_folder("loop")), 0);
    assert_int_equal(facet_path_trust_folder(in_folder("loop/run"), &error), FACET_IO);
    assert_int_equal(chmod(in_folder("a/b"), 0777), 0);
    assert_int_equal(facet_path_trust_folder(in_folder("far/run"), &error), FACET_PERMISSION);
    assert_non_null(strstr(error.message, in_folder("a/b, which leads to ")));
    assert_int_equal(chmod(in_folder("a/b"), 0700), 0);
    if (geteuid() != 0)
        skip();
    assert_int_equal(lchown(in_folder("a/near"), 65534, 65534), 0);
    assert_int_equal(facet_path_trust_folder(in_folder("far/run"), &error), FACET_PERMISSION);
    assert_non_null(strstr(error.message, in_folder("a/near, which leads to ")));
    assert_non_null(strstr(error.message, "belongs to user 65534, expected root"));
}

static void a_relative_path_is_judged_from_the_root(void **state)
{
    char before[FACET_PATH_SIZE];

    assert_int_equal(facet_path_make(in_folder("open/here"), 0700, NULL), FACET_OK);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(in_folder("open/here")), 0);
    assert_int_equal(facet_path_make("run", 0700, NULL), FACET_OK);
    assert_int_equal(chmod(in_folder("open"), 0777), 0);
    assert_int_equal(facet_path_make("run", 0700, NULL), FACET_PERMISSION);
    assert_int_equal(chdir(before), 0);
}

static void a_file_is_trusted_like_a_folder(void **state)
{
    int fd = open(in_folder("file"), O_CREAT | O_WRONLY, 0644);

    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(facet_path_trust_file(in_folder("file"), NULL), FACET_OK);
    assert_int_equal(facet_path_trust_folder(in_folder("file"), NULL), FACET_PERMISSION);
    assert_int_equal(facet_path_trust_file(folder, NULL), FACET_PERMISSION);
    assert_int_equal(facet_path_trust_file(in_folder("nothing"), NULL), FACET_NOT_FOUND);
    assert_int_equal(chmod(in_folder("file"), 0666), 0);
    assert_int_equal(facet_path_trust_file(in_folder("file"), NULL), FACET_PERMISSION);
    assert_int_equal(chmod(in_folder("file"), 0664), 0);
    if (geteuid() != 0)
        skip();
    assert_int_equal(facet_path_trust_file(in_folder("file"), NULL), FACET_OK);
    assert_int_equal(chown(in_folder("file"), 0, 12345), 0);
    assert_int_equal(facet_path_trust_file(in_folder("file"), NULL), FACET_PERMISSION);
}

static void folders_of_others_are_refused(void **state)
{
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(in_folder("theirs"), 0700), 0);
    assert_int_equal(chown(in_folder("theirs"), 65534, 65534), 0);
    assert_int_equal(facet_path_make(in_folder("theirs"), 0700, NULL), FACET_PERMISSION);
    /* A link of this user to a folder of this user is fine, another user's link is not. */
    assert_int_equal(mkdir(in_folder("ours"), 0700), 0);
    assert_int_equal(symlink(in_folder("ours"), in_folder("link")), 0);
    assert_int_equal(facet_path_make(in_folder("link"), 0700, NULL), FACET_OK);
    assert_int_equal(lchown(in_folder("link"), 65534, 65534), 0);
    assert_int_equal(facet_path_make(in_folder("link"), 0700, NULL), FACET_PERMISSION);
}

static void a_path_that_is_no_folder_is_refused(void **state)
{
    struct facet_error error;
    int fd = open(in_folder("file"), O_CREAT | O_WRONLY, 0600);

    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(facet_path_make(in_folder("file"), 0700, &error), FACET_PERMISSION);
    assert_int_equal(facet_path_make(in_folder("file/below"), 0700, &error), FACET_IO);
    assert_int_equal(facet_path_make("", 0700, &error), FACET_INVALID_ARGUMENT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(settings_choose_the_folders),
        TEST(defaults_depend_on_the_user),
        TEST(relative_settings_are_refused),
        TEST(a_path_that_does_not_fit_is_refused),
        TEST(shipped_files_are_found_beside_the_program),
        TEST(the_library_folder_is_the_only_place_when_it_is_set),
        TEST(folders_are_made_with_their_parents),
        TEST(an_existing_folder_is_kept_as_it_is),
        TEST(folders_that_others_may_write_are_refused),
        TEST(folders_below_one_that_others_may_write_are_refused),
        TEST(folders_that_a_group_may_write_are_refused),
        TEST(folders_of_a_group_that_another_user_has_as_primary_are_refused),
        TEST(every_link_on_the_way_is_judged),
        TEST(a_relative_path_is_judged_from_the_root),
        TEST(a_file_is_trusted_like_a_folder),
        TEST(folders_of_others_are_refused),
        TEST(a_path_that_is_no_folder_is_refused),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
