/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about the holders of a device node, in a made-up /proc and in the real one. Never: needs VFIO. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <facet/attach.h>

#include "base/clock.h"

static const char *const nodes[] = {"/dev/vfio/12", "/dev/vfio/devices/vfio3"};

static char folder[64];
static int root = -1;

static int set_up(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/facet-holder-XXXXXX");
    assert_non_null(mkdtemp(folder));
    root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    static const char *const folders[] = {"proc", "proc/1", "proc/1/fd", "proc/77", "proc/77/fd", "proc/bus"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        assert_int_equal(mkdirat(root, folders[i], 0755), 0);
    assert_int_equal(symlinkat("/dev/vfio/13", root, "proc/1/fd/4"), 0);
    return 0;
}

static int tear_down(void **state)
{
    char command[96];

    close(root);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command); /* NOLINT(cert-env33-c): a folder that we named */
}

static int64_t find_holder(int64_t pid)
{
    int64_t holder = -1;
    struct facet_error error = {0};

    assert_int_equal(facet_attach_find_holder(root, pid, nodes, 2, &holder, &error), FACET_OK);
    return holder;
}

static void only_the_given_nodes_have_holders(void **state)
{
    assert_int_equal(find_holder(0), 0);
    assert_int_equal(symlinkat("/dev/vfio/devices/vfio3", root, "proc/77/fd/9"), 0);
    assert_int_equal(find_holder(0), 77);
    assert_int_equal(find_holder(77), 77);
    assert_int_equal(find_holder(1), 0);
    /* A process that is gone has closed everything. */
    assert_int_equal(find_holder(4711), 0);
}

static void an_unreadable_process_is_not_taken_for_one_without_files(void **state)
{
    int64_t holder = -1;
    struct facet_error error = {0};

    /* Root may read every directory, so an unreadable directory is made from a file in its place. */
    assert_int_equal(unlinkat(root, "proc/77/fd", AT_REMOVEDIR), 0);
    close(openat(root, "proc/77/fd", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    assert_int_not_equal(facet_attach_find_holder(root, 77, nodes, 2, &holder, &error), FACET_OK);
    assert_int_not_equal(facet_attach_find_holder(root, 0, nodes, 2, &holder, &error), FACET_OK);
    assert_non_null(strstr(error.message, "what process 77 has open"));
    assert_int_equal(holder, -1);
    /* A holder that can be read is found nevertheless. */
    assert_int_equal(symlinkat("/dev/vfio/12", root, "proc/1/fd/5"), 0);
    assert_int_equal(find_holder(0), 1);
}

static void *close_soon(void *context)
{
    usleep(50000); /* 0.05 s */
    unlinkat(root, "proc/77/fd/9", 0);
    return NULL;
}

static void the_holder_is_waited_for_until_it_closes(void **state)
{
    struct facet_error error = {0};
    pthread_t thread;

    assert_int_equal(symlinkat("/dev/vfio/12", root, "proc/77/fd/9"), 0);
    /* A deadline of 1 ns has passed long ago. */
    assert_int_equal(facet_attach_wait_closed(root, 77, nodes, 2, 1, &error), FACET_TIMEOUT);
    assert_non_null(strstr(error.message, "process 77 still has '/dev/vfio/12' open"));
    assert_int_equal(pthread_create(&thread, NULL, close_soon, NULL), 0);
    assert_int_equal(facet_attach_wait_closed(root, 77, nodes, 2, facet_clock_now_ns() + 60 * FACET_NS_PER_S, &error),
                     FACET_OK);
    pthread_join(thread, NULL);
}

static void the_calling_process_is_found(void **state)
{
    const char *const null[] = {"/dev/null"};
    int real = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), held = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int64_t holder = 0;
    struct facet_error error = {0};

    assert_int_equal(facet_attach_find_holder(real, getpid(), null, 1, &holder, &error), FACET_OK);
    assert_int_equal(holder, getpid());
    close(held);
    close(real);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_the_given_nodes_have_holders),
        TEST(an_unreadable_process_is_not_taken_for_one_without_files),
        TEST(the_holder_is_waited_for_until_it_closes),
        TEST(the_calling_process_is_found),
    };

    return cmocka_run_group_tests_name("passthrough/holder", tests, NULL, NULL);
}
