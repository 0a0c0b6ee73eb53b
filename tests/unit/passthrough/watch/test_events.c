/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that events of the kernel wake a watch, on a machine of umockdev's. Run by umockdev-wrapper. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <umockdev.h>

#include <facet/pci_watch.h>

#define HOUR_NS   UINT64_C(3600000000000)
#define SECOND_NS UINT64_C(1000000000)

struct mock {
    UMockdevTestbed *testbed;
    struct facet_pci_watch *watch;
    int root;
};

static char *plug_in(struct mock *mock, const char *address)
{
    char path[64];

    snprintf(path, sizeof path, "pci0000:00/%s", address);
    return umockdev_testbed_add_device(mock->testbed, "pci", path, NULL, "vendor", "0x10de", "device", "0x2330",
                                       "class", "0x030200", "subsystem_vendor", "0x10de", "subsystem_device", "0x16c1",
                                       "revision", "0xa1", NULL, "PCI_SLOT_NAME", address, NULL);
}

/* The watch scans once an hour by itself, so that only events can wake it. */
static int set_up(void **state)
{
    static struct mock mock;
    struct facet_pci_watch_config config = {
        .size = sizeof config, .events = 1, .scan.size = sizeof config.scan, .poll_ns = HOUR_NS};
    struct facet_error error = {0};

    mock.testbed = umockdev_testbed_new();
    g_free(plug_in(&mock, "0000:01:00.0"));
    gchar *root = umockdev_testbed_get_root_dir(mock.testbed);
    mock.root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    g_free(root);
    config.scan.root = mock.root;
    assert_int_equal(facet_pci_watch_open(&config, &mock.watch, &error), FACET_OK);
    assert_true(facet_pci_watch_fd(mock.watch) >= 0);
    *state = &mock;
    return 0;
}

static int tear_down(void **state)
{
    struct mock *mock = *state;

    facet_pci_watch_close(mock->watch);
    close(mock->root);
    g_object_unref(mock->testbed);
    return 0;
}

static bool count_change(void *user, const struct facet_pci_change *change)
{
    *(uint32_t *)user += change->kind == FACET_PCI_CHANGE_ADDED;
    return true;
}

static void *plug_three(void *context)
{
    static const char *const addresses[] = {"0000:02:00.0", "0000:03:00.0", "0000:04:00.0"};

    usleep(100000); /* so that the test already waits */
    for (size_t i = 0; i < 3; i++) {
        char *device = plug_in(context, addresses[i]);

        umockdev_testbed_uevent(((struct mock *)context)->testbed, device, "add");
        g_free(device);
    }
    return NULL;
}

static void a_card_of_three_functions_is_reported_at_once(void **state)
{
    struct mock *mock = *state;
    struct facet_error error = {0};
    uint32_t added = 0;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, plug_three, mock), 0);
    for (int i = 0; i < 3 && added < 3; i++) /* on a busy machine several scans may find them */
        assert_int_equal(facet_pci_watch_wait(mock->watch, 60 * SECOND_NS, count_change, &added, &error), FACET_OK);
    pthread_join(thread, NULL);
    assert_int_equal(added, 3);
}

/* Reports the removal of a function that stays. */
static void *send_false_event(void *context)
{
    struct mock *mock = context;
    gchar *root = umockdev_testbed_get_sys_dir(mock->testbed);
    gchar *device = g_build_filename(root, "devices/pci0000:00/0000:01:00.0", NULL);

    usleep(50000); /* so that the test already waits */
    umockdev_testbed_uevent(mock->testbed, device, "remove");
    g_free(device);
    g_free(root);
    return NULL;
}

static void a_false_event_changes_nothing(void **state)
{
    struct mock *mock = *state;
    struct facet_error error = {0};
    uint32_t added = 0;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, send_false_event, mock), 0);
    assert_int_equal(facet_pci_watch_wait(mock->watch, SECOND_NS, count_change, &added, &error), FACET_TIMEOUT);
    pthread_join(thread, NULL);
    assert_int_equal(facet_pci_snapshot_count(facet_pci_watch_snapshot(mock->watch)), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_card_of_three_functions_is_reported_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_false_event_changes_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
