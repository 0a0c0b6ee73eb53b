/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof that a group counts as private only where the user is known to be alone in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/private_group.h"

#include "../../scratch.h"

#define PASSWD "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n"
#define GROUP  "root:x:0:\nann:x:1000:\nusers:x:100:\n"

static char root[256];

static const char *in_root(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static void make_folder(const char *name)
{
    assert_true(mkdir(in_root(name), 0755) == 0 || errno == EEXIST);
}

/* A `text` of NULL removes the file. */
static void put_file(const char *name, const char *text)
{
    if (!text) {
        (void)unlink(in_root(name));
        return;
    }
    FILE *file = fopen(in_root(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    if (scratch_folder("private-group", root, sizeof root) < 0)
        return -1;
    make_folder("etc");
    put_file("etc/passwd", PASSWD);
    put_file("etc/group", GROUP);
    put_file("etc/nsswitch.conf", "passwd: files systemd\ngroup: files [SUCCESS=merge] systemd # all\n");
    return 0;
}

static int tear_down(void **state)
{
    return scratch_remove(root) ? 0 : -1;
}

/* Whether ann is known to be alone in her group. */
static bool is_alone(void)
{
    return facet_private_group(root, 1000, 1000);
}

static void the_group_of_a_user_alone_is_private(void **state)
{
    assert_true(is_alone());
    assert_true(facet_private_group(root, 0, 0));
    put_file("etc/group", "root:x:0:\nann:x:1000:ann\n");
    assert_true(is_alone());
    put_file("etc/nsswitch.conf", NULL);
    assert_true(is_alone());
    put_file("etc/passwd", PASSWD "ann2:x:1000:1000::/home/ann:/bin/sh\n"); /* a second name of the user */
    assert_true(is_alone());
}

static void a_group_that_is_not_the_users_own_is_shared(void **state)
{
    assert_false(facet_private_group(root, 100, 1000));
    assert_false(facet_private_group(root, 0, 1000));
    assert_false(facet_private_group(root, 1000, 0));
    put_file("etc/group", "staff:x:1000:\n");
    assert_false(is_alone());
    put_file("etc/group", "root:x:0:\n");
    assert_false(is_alone());
}

static void a_member_shares_the_group(void **state)
{
    put_file("etc/group", "root:x:0:\nann:x:1000:ann,bob\n");
    assert_false(is_alone());
    put_file("etc/group", GROUP "other:x:1000:bob\n"); /* a second name for the same group number */
    assert_false(is_alone());
}

static void a_user_with_the_same_primary_group_shares_it(void **state)
{
    put_file("etc/passwd", PASSWD "bob:x:1001:1000::/home/bob:/bin/sh\n");
    assert_false(is_alone());
    put_file("etc/passwd", "bob:x:1001:1000::/home/bob:/bin/sh\n" PASSWD);
    assert_false(is_alone());
    put_file("etc/passwd", PASSWD "bob:x:1001:1001::/home/bob:/bin/sh\n");
    assert_true(is_alone());
}

static void users_that_no_file_lists_share_every_group(void **state)
{
    static const char *const refused[] = {"passwd: files sss\n",
                                          "group: files ldap\n",
                                          "initgroups: files sss\n",
                                          "passwd: compat\n",
                                          " passwd :sss\n",
                                          "passwd: files [NOTFOUND\n",
                                          "passwd: files\nsss\n\ngroup: winbind\n"};
    static const char *const accepted[] = {"passwd: files\n", "# passwd: sss\n", "shadow: sss\nhosts: dns\n", "",
                                           "passwd: files [NOTFOUND=return] systemd"};

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        put_file("etc/nsswitch.conf", refused[i]);
        if (is_alone())
            fail_msg("with the sources '%s' ann is alone in her group, expected that this is unknown", refused[i]);
    }
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        put_file("etc/nsswitch.conf", accepted[i]);
        if (!is_alone())
            fail_msg("with the sources '%s' ann is not alone in her group, expected that she is", accepted[i]);
    }
    put_file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"); /* another source than this file defines ann */
    assert_false(is_alone());
}

static void records_of_systemd_may_share_a_group(void **state)
{
    make_folder("run");
    make_folder("run/systemd");
    make_folder("run/systemd/userdb");
    put_file("run/systemd/userdb/io.systemd.DynamicUser", "");
    assert_true(is_alone());
    put_file("run/systemd/userdb/io.systemd.Home", "");
    assert_false(is_alone());
    put_file("run/systemd/userdb/io.systemd.Home", NULL);
    make_folder("etc/userdb");
    assert_true(is_alone());
    put_file("etc/userdb/bob.user", "{}");
    assert_false(is_alone());
    put_file("etc/nsswitch.conf", "passwd: files\n");
    assert_true(is_alone());
}

static void what_cannot_be_read_counts_as_shared(void **state)
{
    static char lengthy[40000];

    put_file("etc/group", NULL);
    assert_false(is_alone());
    put_file("etc/group", GROUP);
    put_file("etc/passwd", NULL);
    assert_false(is_alone());
    memset(lengthy, 'x', sizeof lengthy - 2);
    lengthy[sizeof lengthy - 2] = '\n';
    memcpy(lengthy, "many:x:1000:", 12);
    put_file("etc/passwd", PASSWD);
    put_file("etc/group", lengthy);
    assert_false(is_alone());
    put_file("etc/group", GROUP);
    memcpy(lengthy, "passwd:     ", 12);
    put_file("etc/nsswitch.conf", lengthy);
    assert_false(is_alone());
    put_file("etc/nsswitch.conf", NULL);
    make_folder("etc/nsswitch.conf"); /* a folder opens, but cannot be read */
    assert_false(is_alone());
}

#define WITH_SETUP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SETUP(the_group_of_a_user_alone_is_private),
        WITH_SETUP(a_group_that_is_not_the_users_own_is_shared),
        WITH_SETUP(a_member_shares_the_group),
        WITH_SETUP(a_user_with_the_same_primary_group_shares_it),
        WITH_SETUP(users_that_no_file_lists_share_every_group),
        WITH_SETUP(records_of_systemd_may_share_a_group),
        WITH_SETUP(what_cannot_be_read_counts_as_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
