/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a compile whose cache has no usable folder or disk succeeds, reports the reason, and leaves nothing
 * there.
 * Never: mounts anything that another process sees.
 */
#include <sched.h>
#include <sys/mount.h>

#include "caching.h"

/* --- unusable folders --------------------------------------------------------------------------------------------- */

/* Expects each compile to be a miss, and the cache to report the status `expected`. */
static void expect_no_use(enum facet_status expected)
{
    long before = compile_count();

    assert_false(compile_hits_with(FACET_CACHE_USE, "ok", expected));
    assert_false(compile_hits_with(FACET_CACHE_USE, "ok", expected));
    assert_int_equal(compile_count(), before + 2);
    assert_int_equal(count_files(".kernel", NULL) + count_files(".tmp", NULL) + count_files(".lock", NULL), 0);
}

static void a_folder_that_others_may_write_is_not_used(void **state)
{
    assert_int_equal(mkdir(folder, 0700), 0);
    for (mode_t mode = 0720; mode == 0720 || mode == 0702; mode -= 016) {
        assert_int_equal(chmod(folder, mode), 0);
        expect_no_use(FACET_PERMISSION);
    }
    assert_int_equal(chmod(folder, 0700), 0);
    assert_false(compile_hits(FACET_CACHE_USE, "ok"));
    assert_true(compile_hits(FACET_CACHE_USE, "ok"));
}

static void a_folder_of_another_user_is_not_used(void **state)
{
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chown(folder, 12345, 12345), 0);
    expect_no_use(FACET_PERMISSION);
}

static void a_link_of_this_user_is_followed_and_another_users_is_not(void **state)
{
    char there[128];

    snprintf(there, sizeof there, "%s/there", root);
    assert_int_equal(mkdir(there, 0700), 0);
    assert_int_equal(symlink(there, folder), 0);
    assert_false(compile_hits(FACET_CACHE_USE, "ok"));
    assert_true(compile_hits(FACET_CACHE_USE, "ok"));
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(symlink("nowhere", folder), 0);
    expect_no_use(FACET_NOT_FOUND);
    if (geteuid() != 0)
        skip();
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(symlink(there, folder), 0);
    assert_int_equal(lchown(folder, 12345, 12345), 0);
    assert_false(compile_hits_with(FACET_CACHE_USE, "ok", FACET_PERMISSION)); /* although the entry exists */
}

static void without_a_folder_nothing_is_cached(void **state)
{
    int file = open(folder, O_CREAT | O_WRONLY, 0600);

    close(file);
    snprintf(folder, sizeof folder, "%s/cache/below-a-file", root);
    expect_no_use(FACET_IO);
}

/* --- unusable disks ----------------------------------------------------------------------------------------------- */

static void put_line(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        (void)fd; /* if this fails, the mount that follows fails too, and is checked */
    if (fd >= 0)
        close(fd);
}

/* Mounts a small disk in the folder's place, which only this process sees. Skips the test if that is not allowed. */
static void mount_small_disk(void)
{
    char map[32];

    assert_int_equal(mkdir(folder, 0700), 0);
    if (unshare(CLONE_NEWNS) < 0) {
        snprintf(map, sizeof map, "0 %ld 1\n", (long)geteuid());
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
            skip();
        put_line("/proc/self/uid_map", map);
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("facet-test", folder, "tmpfs", 0, "size=64k,mode=0700") < 0)
        skip();
}

static void a_full_disk_gets_no_entry_and_keeps_those_it_has(void **state)
{
    static const char block[4096];
    char path[128];

    mount_small_disk();
    assert_false(compile_hits(FACET_CACHE_USE, "before"));
    snprintf(path, sizeof path, "%s/filler", folder);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    while (write(fd, block, sizeof block) > 0)
        ;
    close(fd);
    assert_false(compile_hits_with(FACET_CACHE_USE, "ok", FACET_NO_SPACE));
    assert_false(compile_hits_with(FACET_CACHE_USE, "ok", FACET_NO_SPACE));
    assert_int_equal(count_files(".tmp", NULL) + count_files(".lock", NULL), 0);
    assert_true(compile_hits(FACET_CACHE_USE, "before"));
    assert_int_equal(unlink(path), 0);
    assert_false(compile_hits(FACET_CACHE_USE, "ok"));
    assert_true(compile_hits(FACET_CACHE_USE, "ok"));
    assert_int_equal(umount(folder), 0);
}

static void a_folder_that_cannot_be_written_is_still_read(void **state)
{
    mount_small_disk();
    assert_false(compile_hits(FACET_CACHE_USE, "before"));
    assert_int_equal(mount(NULL, folder, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_false(compile_hits_with(FACET_CACHE_USE, "ok", FACET_PERMISSION));
    assert_false(compile_hits_with(FACET_CACHE_REFRESH, "before", FACET_PERMISSION));
    assert_true(compile_hits(FACET_CACHE_USE, "before"));
    assert_int_equal(umount(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CACHE(a_folder_that_others_may_write_is_not_used),
        WITH_CACHE(a_folder_of_another_user_is_not_used),
        WITH_CACHE(a_link_of_this_user_is_followed_and_another_users_is_not),
        WITH_CACHE(without_a_folder_nothing_is_cached),
        /* these two change the mounts of this process, and so come last */
        WITH_CACHE(a_full_disk_gets_no_entry_and_keeps_those_it_has),
        WITH_CACHE(a_folder_that_cannot_be_written_is_still_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
