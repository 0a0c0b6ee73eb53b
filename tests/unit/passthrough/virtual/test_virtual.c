/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs about making virtual functions, mediated devices and vendors' types, on a tree of files that reacts to
 * writes as the kernel's does, also where the Nth write fails.
 * Never: touches this machine's own devices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <facet/virtual.h>

#include "base/cleanup.h"

#define DEVICES "sys/bus/pci/devices/"
#define GPU     DEVICES "0000:65:00.0/"
#define VF      DEVICES "0000:65:00.4/"
#define TYPES   GPU "mdev_supported_types/"
#define UUID_A  "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
#define UUID_B  "83b8f4f2-509f-382f-3c1e-e6bfe0fa1002"

static const struct facet_pci_address gpu = {.bus = 0x65}, vf = {.bus = 0x65, .function = 4};

static char folder[64];
static int root = -1;
static uint64_t writes, fail_at;
static bool fail_for_good;  /* all writes from the Nth on fail */
static bool ignores_writes; /* the kernel accepts values and does nothing */

/* --- the tree --- */

static void make_parents(const char *path)
{
    char part[256];

    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdirat(root, part, 0755) < 0)
            assert_int_equal(errno, EEXIST);
    }
}

static void put_text(const char *path, const char *text)
{
    make_parents(path);
    FACET_CLEANUP_FD int fd = openat(root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(dprintf(fd, "%s\n", text), strlen(text) + 1);
}

static void link_to(const char *path, const char *target)
{
    make_parents(path);
    unlinkat(root, path, 0);
    assert_int_equal(symlinkat(target, root, path), 0);
}

static void get_text(const char *path, char *text, size_t size)
{
    FACET_CLEANUP_FD int fd = openat(root, path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, size - 1) : 0;

    text[length > 0 ? length : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static int number_in(const char *path)
{
    char text[32];

    get_text(path, text, sizeof text);
    return atoi(text);
}

static bool is_there(const char *path)
{
    return faccessat(root, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* --- the kernel's part --- */

static void kernel_set_virtuals(int count)
{
    char path[96], target[64];

    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, GPU "virtfn%d", i);
        unlinkat(root, path, 0);
        if (i >= count)
            continue;
        snprintf(target, sizeof target, "../0000:65:00.%d", 4 + i % 4);
        link_to(path, target);
        snprintf(path, sizeof path, DEVICES "0000:65:00.%d/vendor", 4 + i % 4);
        put_text(path, "0x10de");
    }
}

static void kernel_make_mdev(const char *type, const char *uuid)
{
    char path[160], target[160];

    snprintf(path, sizeof path, "sys/bus/mdev/devices/%s/remove", uuid);
    put_text(path, "");
    snprintf(path, sizeof path, "sys/bus/mdev/devices/%s/mdev_type", uuid);
    snprintf(target, sizeof target, "../../../../pci/devices/0000:65:00.0/mdev_supported_types/%s", type);
    link_to(path, target);
    snprintf(path, sizeof path, TYPES "%s/available_instances", type);
    snprintf(target, sizeof target, "%d", number_in(path) - 1);
    put_text(path, target);
}

static void kernel_remove_mdev(const char *device)
{
    static const char *const files[] = {"remove", "mdev_type", ""};
    char path[PATH_MAX + 16];

    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", device, files[i]);
        unlinkat(AT_FDCWD, path, files[i][0] ? 0 : AT_REMOVEDIR);
    }
}

ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);

/* Cuts off the last part of a path, and returns it. */
static const char *cut_last_part(char *path)
{
    char *slash = strrchr(path, '/');

    *slash = '\0';
    return slash + 1;
}

static ssize_t react_to_write(char *path, const char *value, int fd)
{
    const char *name = cut_last_part(path);

    if (strcmp(name, "sriov_numvfs") == 0) {
        int count = atoi(value), before = number_in(GPU "sriov_numvfs");
        if (count != 0 && before != 0)
            return errno = EBUSY, -1;
        kernel_set_virtuals(count);
    } else if (strcmp(name, "create") == 0) {
        kernel_make_mdev(cut_last_part(path), value);
        return 0;
    } else if (strcmp(name, "remove") == 0) {
        kernel_remove_mdev(path);
        return 0;
    }
    assert_int_equal(ftruncate(fd, 0), 0);
    return dprintf(fd, "%s\n", value) > 0 ? 0 : -1;
}

ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
    char name[64], path[PATH_MAX] = "", value[64] = "";

    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (readlink(name, path, sizeof path - 1) < 0 || strncmp(path, folder, strlen(folder)) != 0)
        return __real_write(fd, data, bytes);
    writes++;
    if (fail_at && (writes == fail_at || (fail_for_good && writes > fail_at)))
        return errno = EIO, -1;
    memcpy(value, data, bytes < sizeof value ? bytes : sizeof value - 1);
    if (ignores_writes)
        return (ssize_t)bytes;
    return react_to_write(path, value, fd) < 0 ? -1 : (ssize_t)bytes;
}

static int set_up(void **state)
{
    writes = fail_at = 0;
    fail_for_good = ignores_writes = false;
    snprintf(folder, sizeof folder, "/tmp/facet-virtual-XXXXXX");
    assert_non_null(mkdtemp(folder));
    root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(root >= 0);
    put_text("proc/1/fd/none", "");
    put_text(GPU "sriov_totalvfs", "4");
    put_text(GPU "sriov_numvfs", "0");
    put_text(GPU "sriov_drivers_autoprobe", "1");
    put_text(TYPES "nvidia-222/available_instances", "3");
    put_text(TYPES "nvidia-222/create", "");
    put_text(TYPES "nvidia-223/available_instances", "0");
    put_text(VF "nvidia/current_vgpu_type", "0");
    put_text(VF "nvidia/creatable_vgpu_types", "ID    : vGPU Name\n557   : NVIDIA L40S-1B\n558   : NVIDIA L40S-2B");
    return 0;
}

static int tear_down(void **state)
{
    char command[96];

    close(root);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command); /* NOLINT(cert-env33-c): a folder that we named */
}

#define assert_says(error, text)                                                                                       \
    do {                                                                                                               \
        if (!strstr((error).message, text))                                                                            \
            fail_msg("'%s' does not say '%s'", (error).message, text);                                                 \
    } while (0)

/* --- SR-IOV --- */

static void virtual_functions_come_and_go(void **state)
{
    struct facet_error error = {0};

    assert_int_equal(facet_sriov_set(root, &gpu, 3, 0, &error), FACET_OK);
    assert_int_equal(number_in(GPU "sriov_numvfs"), 3);
    assert_int_equal(writes, 1);
    assert_int_equal(facet_sriov_set(root, &gpu, 3, 0, &error), FACET_OK);
    assert_int_equal(writes, 1);
    assert_int_equal(facet_sriov_set(root, &gpu, 1, FACET_SRIOV_NO_PROBE, &error), FACET_OK);
    assert_int_equal(number_in(GPU "sriov_numvfs"), 1);
    assert_int_equal(number_in(GPU "sriov_drivers_autoprobe"), 0);
    assert_int_equal(facet_sriov_set(root, &gpu, 0, 0, &error), FACET_OK);
    assert_false(is_there(GPU "virtfn0"));
}

static void numbers_that_a_function_cannot_have_are_refused(void **state)
{
    const struct facet_pci_address other = {.bus = 0x66};
    struct facet_error error = {0};

    assert_int_equal(facet_sriov_set(root, &gpu, 5, 0, &error), FACET_OUT_OF_RANGE);
    assert_says(error, "expected 0 to 4");
    assert_int_equal(facet_sriov_set(root, &vf, 1, 0, &error), FACET_UNSUPPORTED);
    assert_int_equal(facet_sriov_set(root, &other, 1, 0, &error), FACET_NOT_FOUND);
    assert_int_equal(writes, 0);
}

static void functions_in_use_are_named_and_stay(void **state)
{
    struct facet_error error = {0};

    assert_int_equal(facet_sriov_set(root, &gpu, 2, 0, &error), FACET_OK);
    writes = 0;
    link_to(VF "driver", "../../../../bus/pci/drivers/nvidia");
    assert_int_equal(facet_sriov_set(root, &gpu, 1, 0, &error), FACET_BUSY);
    assert_says(error, "0000:65:00.4 (driven by nvidia)");
    put_text(VF "nvidia/current_vgpu_type", "557");
    assert_int_equal(facet_sriov_set(root, &gpu, 1, FACET_SRIOV_EVICT, &error), FACET_BUSY);
    assert_says(error, "type 557");
    put_text(VF "nvidia/current_vgpu_type", "0");
    link_to(VF "iommu_group", "../../../../kernel/iommu_groups/17");
    link_to("proc/4711/fd/9", "/dev/vfio/17");
    assert_int_equal(facet_sriov_set(root, &gpu, 0, FACET_SRIOV_EVICT, &error), FACET_BUSY);
    assert_says(error, "open in process 4711");
    assert_int_equal(writes, 0);
    unlinkat(root, "proc/4711/fd/9", 0);
    assert_int_equal(facet_sriov_set(root, &gpu, 0, FACET_SRIOV_EVICT, &error), FACET_OK);
}

static void a_kernel_that_does_nothing_is_noticed(void **state)
{
    struct facet_error error = {0};

    ignores_writes = true;
    assert_int_equal(facet_sriov_set(root, &gpu, 2, 0, &error), FACET_BAD_STATE);
    assert_says(error, "the kernel has 0 virtual functions after 2 were written");
    assert_int_equal(facet_vendor_type_set(root, &vf, 557, &error), FACET_BAD_STATE);
}

/* Changes a count of virtual functions while the Nth write fails, or all writes from it on. Returns false if there are
 * fewer writes, so that the change succeeds. */
static bool change_with_failing_write(int from, int to, uint64_t nth, bool for_good, struct facet_error *error)
{
    kernel_set_virtuals(from);
    put_text(GPU "sriov_numvfs", from == 0 ? "0" : from == 1 ? "1" : "2");
    put_text(GPU "sriov_drivers_autoprobe", "1");
    writes = 0;
    fail_at = nth;
    fail_for_good = for_good;
    enum facet_status status = facet_sriov_set(root, &gpu, (uint32_t)to, FACET_SRIOV_NO_PROBE, error);
    bool reached = writes >= nth;
    fail_at = 0;
    fail_for_good = false;
    assert_int_equal(status == FACET_OK, !reached);
    if (reached)
        assert_says(*error, "0000:65:00.0");
    return reached;
}

/* Changes each count of virtual functions into each other count, while each of the writes in turn fails once. */
static void every_failing_write_leaves_the_state_as_it_was(void **state)
{
    for (int from = 0; from < 3; from++) {
        for (int to = 0; to < 3; to++) {
            bool reached = from != to;
            for (uint64_t nth = 1; reached; nth++) {
                struct facet_error error = {0};
                reached = change_with_failing_write(from, to, nth, false, &error);
                assert_int_equal(number_in(GPU "sriov_numvfs"), reached ? from : to);
                assert_int_equal(number_in(GPU "sriov_drivers_autoprobe"), !reached && to > 0 ? 0 : 1);
                assert_null(strstr(error.message, "not undone"));
            }
        }
    }
}

/* While each of the writes in turn, and all later ones, fail, the message names what differs from before, and no more.
 */
static void every_state_that_writes_leave_for_good_is_named(void **state)
{
    unsigned counts = 0, probings = 0;

    for (int from = 0; from < 3; from++) {
        for (int to = 0; to < 3; to++) {
            bool reached = from != to;
            for (uint64_t nth = 1; reached; nth++) {
                struct facet_error error = {0};
                reached = change_with_failing_write(from, to, nth, true, &error);
                if (!reached)
                    continue;
                const char *left = strstr(error.message, "not undone");
                bool other_count = number_in(GPU "sriov_numvfs") != from;
                bool other_probing = number_in(GPU "sriov_drivers_autoprobe") != 1;
                assert_int_equal(left && strstr(left, "the number of virtual functions"), other_count);
                assert_int_equal(left && strstr(left, "sriov_drivers_autoprobe"), other_probing);
                counts += other_count;
                probings += other_probing;
            }
        }
    }
    assert_true(counts > 0 && probings > 0);
}

static void a_step_that_cannot_be_undone_is_reported(void **state)
{
    struct facet_error error = {0};

    assert_int_equal(facet_sriov_set(root, &gpu, 2, 0, &error), FACET_OK);
    writes = 0;
    fail_at = 2; /* the first write sets the count to 0; neither 1 nor the former 2 can be written then */
    fail_for_good = true;
    assert_int_equal(facet_sriov_set(root, &gpu, 1, 0, &error), FACET_IO);
    assert_says(error, "not undone: the number of virtual functions");
}

/* --- mediated devices --- */

#define MDEV(...)                                                                                                      \
    (&(struct facet_mdev_request){                                                                                     \
        .size = sizeof(struct facet_mdev_request), .parent = gpu, .type = "nvidia-222", __VA_ARGS__})

static void mediated_devices_come_and_go(void **state)
{
    char uuids[2][FACET_MDEV_UUID_SIZE];
    char path[96];
    struct facet_error error = {0};

    assert_int_equal(facet_mdev_create(root, MDEV(.count = 2), uuids, &error), FACET_OK);
    assert_int_not_equal(strcmp(uuids[0], uuids[1]), 0);
    assert_int_equal(uuids[0][14], '4'); /* the UUID's version: random */
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "sys/bus/mdev/devices/%s", uuids[i]);
        assert_true(is_there(path));
        assert_int_equal(facet_mdev_remove(root, uuids[i], &error), FACET_OK);
        assert_false(is_there(path));
        assert_int_equal(facet_mdev_remove(root, uuids[i], &error), FACET_NOT_FOUND);
    }
}

static void devices_that_cannot_be_made_are_named(void **state)
{
    char uuids[4][FACET_MDEV_UUID_SIZE];
    const char *const same[] = {UUID_A, "83B8F4F2-509F-382F-3C1E-E6BFE0FA1001"}, *const one[] = {UUID_A};
    const char *const wrong[] = {"83b8f4f2-509f-382f-3c1e-e6bfe0fa100"};
    struct facet_error error = {0};

    assert_int_equal(facet_mdev_create(root, MDEV(.count = 4), uuids, &error), FACET_NO_SPACE);
    assert_says(error, "3 can be made now, 4 are wanted");
    assert_int_equal(
        facet_mdev_create(root,
                          &(struct facet_mdev_request){
                              .size = sizeof(struct facet_mdev_request), .parent = gpu, .type = "x-1", .count = 1},
                          uuids, &error),
        FACET_UNSUPPORTED);
    assert_says(error, "nvidia-222");
    assert_int_equal(
        facet_mdev_create(root,
                          &(struct facet_mdev_request){
                              .size = sizeof(struct facet_mdev_request), .parent = gpu, .type = "../x", .count = 1},
                          uuids, &error),
        FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_mdev_create(root, MDEV(.count = 2, .uuids = same), uuids, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_mdev_create(root, MDEV(.count = 1, .uuids = wrong), uuids, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(writes, 0);
    assert_int_equal(facet_mdev_create(root, MDEV(.count = 1, .uuids = one), uuids, &error), FACET_OK);
    assert_int_equal(facet_mdev_create(root, MDEV(.count = 1, .uuids = one), uuids, &error), FACET_ALREADY_EXISTS);
    assert_says(error, UUID_A);
}

static void a_mediated_device_that_is_open_stays(void **state)
{
    char uuids[1][FACET_MDEV_UUID_SIZE];
    const char *const one[] = {UUID_A};
    struct facet_error error = {0};

    assert_int_equal(facet_mdev_create(root, MDEV(.count = 1, .uuids = one), uuids, &error), FACET_OK);
    link_to("sys/bus/mdev/devices/" UUID_A "/iommu_group", "../../../../kernel/iommu_groups/21");
    link_to("proc/77/fd/3", "/dev/vfio/21");
    assert_int_equal(facet_mdev_remove(root, UUID_A, &error), FACET_BUSY);
    assert_says(error, "open in process 77");
    assert_true(is_there("sys/bus/mdev/devices/" UUID_A));
}

static void every_failing_write_leaves_no_mediated_device(void **state)
{
    const char *const both[] = {UUID_A, UUID_B};
    char uuids[2][FACET_MDEV_UUID_SIZE];
    struct facet_error error = {0};

    for (uint64_t nth = 1; nth <= 2; nth++) {
        writes = 0;
        fail_at = nth;
        assert_int_equal(facet_mdev_create(root, MDEV(.count = 2, .uuids = both), uuids, &error), FACET_IO);
        assert_false(is_there("sys/bus/mdev/devices/" UUID_A));
        assert_false(is_there("sys/bus/mdev/devices/" UUID_B));
        put_text(TYPES "nvidia-222/available_instances", "3");
    }
    writes = 0;
    fail_at = 2;
    fail_for_good = true;
    assert_int_equal(facet_mdev_create(root, MDEV(.count = 2, .uuids = both), uuids, &error), FACET_IO);
    assert_says(error, "not undone: " UUID_A);
}

/* --- vendors' types --- */

static void vendor_types_are_set_and_cleared(void **state)
{
    struct facet_error error = {0};

    assert_int_equal(facet_vendor_type_set(root, &vf, 557, &error), FACET_OK);
    assert_int_equal(facet_vendor_type_set(root, &vf, 557, &error), FACET_OK);
    assert_int_equal(writes, 1);
    assert_int_equal(facet_vendor_type_set(root, &vf, 558, &error), FACET_BAD_STATE);
    assert_says(error, "it is of type 557 now");
    link_to(VF "iommu_group", "../../../../kernel/iommu_groups/17");
    link_to("proc/4711/fd/9", "/dev/vfio/17");
    assert_int_equal(facet_vendor_type_set(root, &vf, 0, &error), FACET_BUSY);
    unlinkat(root, "proc/4711/fd/9", 0);
    fail_at = 2;
    assert_int_equal(facet_vendor_type_set(root, &vf, 0, &error), FACET_IO);
    assert_int_equal(number_in(VF "nvidia/current_vgpu_type"), 557);
    fail_at = 0;
    assert_int_equal(facet_vendor_type_set(root, &vf, 0, &error), FACET_OK);
    assert_int_equal(facet_vendor_type_set(root, &vf, 999, &error), FACET_UNSUPPORTED);
    assert_says(error, "557 (NVIDIA L40S-1B), 558 (NVIDIA L40S-2B)");
    assert_int_equal(facet_vendor_type_set(root, &gpu, 557, &error), FACET_UNSUPPORTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(virtual_functions_come_and_go),
        TEST(numbers_that_a_function_cannot_have_are_refused),
        TEST(functions_in_use_are_named_and_stay),
        TEST(a_kernel_that_does_nothing_is_noticed),
        TEST(every_failing_write_leaves_the_state_as_it_was),
        TEST(every_state_that_writes_leave_for_good_is_named),
        TEST(a_step_that_cannot_be_undone_is_reported),
        TEST(mediated_devices_come_and_go),
        TEST(devices_that_cannot_be_made_are_named),
        TEST(a_mediated_device_that_is_open_stays),
        TEST(every_failing_write_leaves_no_mediated_device),
        TEST(vendor_types_are_set_and_cleared),
    };

    return cmocka_run_group_tests_name("passthrough/virtual", tests, NULL, NULL);
}
