/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about the VFIO client's calls and messages, against the fake of the kernel. Never: needs a device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fake_vfio.h"
#include "passthrough/vfio/inside.h"

#define IOVA       (UINT64_C(1) << 32)
#define READ_WRITE (FACET_VFIO_READ | FACET_VFIO_WRITE)

static struct fake_vfio fake;
static struct facet_vfio_space *space;
static struct facet_vfio_device *device;
static struct facet_error error;
static char memory[8 * 4096] __attribute__((aligned(4096)));

static int set_up(void **state)
{
    fake_vfio_open(&fake);
    space = NULL;
    device = NULL;
    return 0;
}

static int tear_down(void **state)
{
    facet_vfio_device_close(device);
    facet_vfio_space_close(space);
    fake_vfio_close(&fake);
    return 0;
}

static void expect_status(enum facet_status status, enum facet_status expected, const char *fragment)
{
    if (status != expected)
        fail_msg("got %s (%s), expected %s", facet_status_name(status), error.message, facet_status_name(expected));
    if (expected != FACET_OK && !strstr(error.message, fragment))
        fail_msg("'%s' is not in '%s'", fragment, error.message);
}

static enum facet_status open_space(enum facet_vfio_way way)
{
    return facet_vfio_space_open(&fake.system, way, &space, &error);
}

static enum facet_status open_function(const char *address)
{
    return facet_vfio_device_open(space, address, &device, &error);
}

static void open_gpu(void)
{
    expect_status(open_space(FACET_VFIO_GROUP), FACET_OK, "");
    expect_status(open_function(FAKE_GPU), FACET_OK, "");
}

static void add_iommufd(void)
{
    fake_vfio_write(&fake, "dev/iommu", "");
    fake_vfio_write(&fake, "dev/vfio/devices/vfio0", "");
    fake_vfio_write(&fake, "sys/bus/pci/devices/" FAKE_GPU "/vfio-dev/vfio0/dev", "");
}

/* --- spaces --- */

static void test_iommufd_is_preferred_to_groups(void **state)
{
    expect_status(open_space(FACET_VFIO_ANY), FACET_OK, "");
    assert_int_equal(facet_vfio_space_way(space), FACET_VFIO_GROUP);
    facet_vfio_space_close(space);
    space = NULL;
    add_iommufd();
    expect_status(open_space(FACET_VFIO_ANY), FACET_OK, "");
    assert_int_equal(facet_vfio_space_way(space), FACET_VFIO_CDEV);
}

static void test_space_without_a_usable_interface_is_refused(void **state)
{
    expect_status(open_space((enum facet_vfio_way)9), FACET_INVALID_ARGUMENT, "9");
    expect_status(open_space(FACET_VFIO_CDEV), FACET_UNSUPPORTED, "/dev/iommu is not there");
    fake.api_version = 1;
    expect_status(open_space(FACET_VFIO_GROUP), FACET_UNSUPPORTED, "version 1");
    fake.api_version = 0;
    fake.lacks_type1 = true;
    expect_status(open_space(FACET_VFIO_GROUP), FACET_UNSUPPORTED, "vfio_iommu_type1");
    fake.fail_at = fake.calls + 1;
    fake.fail_errno = ENODEV;
    expect_status(open_space(FACET_VFIO_GROUP), FACET_UNSUPPORTED, "/dev/vfio/vfio is not there");
    fake.fail_at = fake.calls + 1;
    fake.fail_errno = EACCES;
    expect_status(open_space(FACET_VFIO_GROUP), FACET_PERMISSION, "opening /dev/vfio/vfio");
    assert_null(space);
}

static void test_memory_needs_an_open_device(void **state)
{
    struct facet_vfio_space_info info;

    expect_status(open_space(FACET_VFIO_GROUP), FACET_OK, "");
    expect_status(facet_vfio_space_map(space, IOVA, memory, 4096, READ_WRITE, &error), FACET_BAD_STATE,
                  "open a device");
    expect_status(facet_vfio_space_unmap(space, IOVA, 4096, &error), FACET_BAD_STATE, "open a device");
    expect_status(facet_vfio_space_describe(space, &info, &error), FACET_BAD_STATE, "open a device");
    expect_status(open_function(FAKE_GPU), FACET_OK, "");
    expect_status(facet_vfio_space_describe(space, &info, &error), FACET_OK, "");
    facet_vfio_device_close(device);
    device = NULL;
    expect_status(facet_vfio_space_describe(space, &info, &error), FACET_BAD_STATE, "open a device");
}

/* --- memory: by groups and by iommufd alike --- */

static void check_memory(void)
{
    expect_status(facet_vfio_space_map(space, IOVA, memory, 8192, READ_WRITE, &error), FACET_OK, "");
    expect_status(facet_vfio_space_map(space, IOVA + 4096, memory, 4096, READ_WRITE, &error), FACET_ALREADY_EXISTS,
                  "0x100001000");
    expect_status(facet_vfio_space_map(space, 0xfee00000, memory, 4096, READ_WRITE, &error), FACET_OUT_OF_RANGE,
                  "the first range is 0 to 0xfedfffff");
    if (facet_vfio_space_way(space) == FACET_VFIO_GROUP)
        expect_status(facet_vfio_space_unmap(space, IOVA, 4096, &error), FACET_INVALID_ARGUMENT,
                      "cut a mapping in two");
    else
        expect_status(facet_vfio_space_unmap(space, IOVA, 4096, &error), FACET_NOT_FOUND,
                      "no whole mapping is in 0x1000");
    expect_status(facet_vfio_space_unmap(space, IOVA, 8192, &error), FACET_OK, "");
    expect_status(facet_vfio_space_unmap(space, IOVA, 8192, &error), FACET_NOT_FOUND, "no whole mapping");
    assert_int_equal(fake.mapping_count, 0);
}

static void check_invalid_ranges(void)
{
    expect_status(facet_vfio_space_map(space, IOVA, memory, 0, READ_WRITE, &error), FACET_INVALID_ARGUMENT, "pages");
    expect_status(facet_vfio_space_map(space, IOVA, memory, 100, READ_WRITE, &error), FACET_INVALID_ARGUMENT, "0x64");
    expect_status(facet_vfio_space_map(space, IOVA + 1, memory, 4096, READ_WRITE, &error), FACET_INVALID_ARGUMENT,
                  "0x100000001");
    expect_status(facet_vfio_space_map(space, UINT64_MAX - 4095, memory, 8192, READ_WRITE, &error),
                  FACET_INVALID_ARGUMENT, "room");
    expect_status(facet_vfio_space_map(space, IOVA, memory + 1, 4096, READ_WRITE, &error), FACET_INVALID_ARGUMENT,
                  "page");
    expect_status(facet_vfio_space_map(space, IOVA, memory, 4096, 0, &error), FACET_INVALID_ARGUMENT,
                  "read, write or both");
    expect_status(facet_vfio_space_map(space, IOVA, memory, 4096, 8, &error), FACET_INVALID_ARGUMENT, "0x8");
    expect_status(facet_vfio_space_unmap(space, IOVA + 1, 4096, &error), FACET_INVALID_ARGUMENT, "0x100000001");
    assert_int_equal(fake.mapping_count, 0);
}

static void test_memory_is_mapped_by_group(void **state)
{
    struct facet_vfio_space_info info;

    open_gpu();
    check_memory();
    check_invalid_ranges();
    expect_status(facet_vfio_space_describe(space, &info, &error), FACET_OK, "");
    assert_int_equal(info.page_sizes, 4096);
    assert_int_equal(info.mappings_left, FAKE_MAPPINGS);
    assert_int_equal(info.range_count, 2);
    assert_int_equal(info.ranges[1].start, 0xfef00000);
    /* An answer whose chain leads in a circle is read up to the repetition. */
    fake.circular = true;
    expect_status(facet_vfio_space_describe(space, &info, &error), FACET_OK, "");
    assert_int_equal(info.range_count, 0);
    assert_int_equal(info.mappings_left, UINT32_MAX);
}

static void test_memory_is_mapped_by_iommufd(void **state)
{
    struct facet_vfio_space_info info;

    add_iommufd();
    expect_status(open_space(FACET_VFIO_CDEV), FACET_OK, "");
    expect_status(open_function(FAKE_GPU), FACET_OK, "");
    check_memory();
    check_invalid_ranges();
    expect_status(facet_vfio_space_describe(space, &info, &error), FACET_OK, "");
    assert_int_equal(info.range_count, 2);
    assert_int_equal(info.ranges[0].last, 0xfedfffff);
    assert_int_equal(info.mappings_left, UINT32_MAX);
}

static void test_too_many_mappings_are_refused(void **state)
{
    open_gpu();
    for (uint64_t i = 0; i < FAKE_MAPPINGS; i++)
        expect_status(facet_vfio_space_map(space, IOVA + i * 8192, memory, 4096, READ_WRITE, &error), FACET_OK, "");
    expect_status(facet_vfio_space_map(space, IOVA << 1, memory, 4096, READ_WRITE, &error), FACET_NO_SPACE,
                  "mappings left: 0;");
    expect_status(facet_vfio_space_unmap(space, IOVA, UINT64_C(8192) * FAKE_MAPPINGS, &error), FACET_OK, "");
}

static struct rlimit limit_before;

static void limit_memory(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit_before), 0);
    limit = (struct rlimit){.rlim_cur = bytes, .rlim_max = limit_before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    fake.map_errno = ENOMEM;
}

static void test_memlock_error_names_the_limit(void **state)
{
    open_gpu();
    limit_memory(32768);
    expect_status(facet_vfio_space_map(space, IOVA, memory, 20480, READ_WRITE, &error), FACET_QUOTA,
                  "may lock 32768 bytes of memory (memlock) and has locked 16384; raise memlock to 36864");
    /* Where the limit was not the reason, the message does not name it. */
    expect_status(facet_vfio_space_map(space, IOVA, memory, 16384, READ_WRITE, &error), FACET_NO_MEMORY,
                  "no memory to pin");
    fake_vfio_write(&fake, "proc/self/status", "Name:\\tx\\nVmLck:\\t16 kB\\nCapEff:\\t0000000000004000\\n");
    expect_status(facet_vfio_space_map(space, IOVA, memory, 20480, READ_WRITE, &error), FACET_NO_MEMORY,
                  "no memory to pin");
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit_before), 0);
}

static void test_memlock_error_of_iommufd_names_the_limit(void **state)
{
    add_iommufd();
    expect_status(open_space(FACET_VFIO_CDEV), FACET_OK, "");
    limit_memory(32768);
    expect_status(facet_vfio_space_map(space, IOVA, memory, 28672, READ_WRITE, &error), FACET_QUOTA,
                  "and has locked 8192; raise memlock to 36864");
    /* The limit counts all processes of the user, which may have used it up. */
    expect_status(facet_vfio_space_map(space, IOVA, memory, 4096, READ_WRITE, &error), FACET_QUOTA,
                  "has locked 8192, and other processes of its user have locked more;");
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit_before), 0);
}

/* --- opening --- */

static void test_wrong_addresses_are_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "gpu0",
                                        "01:00.0",
                                        "../../../etc/passwd",
                                        "0000:01:00.0/..",
                                        "0000:01:00.0 ",
                                        "0000:0A:00.0",
                                        "............",
                                        "0000:01:00.00000000000000"};

    expect_status(open_space(FACET_VFIO_GROUP), FACET_OK, "");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect_status(open_function(wrong[i]), FACET_INVALID_ARGUMENT, "expected one like 0000:01:00.0");
    expect_status(open_function("0000:09:00.0"), FACET_NOT_FOUND, "0000:09:00.0: there is no such PCI function");
    expect_status(open_function(FAKE_NO_IOMMU), FACET_UNSUPPORTED, "0000:03:00.0: it is in no IOMMU group");
    assert_null(device);
}

static void test_two_functions_of_a_group_share_it(void **state)
{
    struct facet_vfio_device *sound = NULL;

    open_gpu();
    expect_status(facet_vfio_device_open(space, FAKE_SOUND, &sound, &error), FACET_OK, "");
    assert_int_equal(facet_vfio_device_describe(device).group, 7);
    assert_int_equal(facet_vfio_device_describe(sound).group, 7);
    assert_ptr_equal(device->group, sound->group);
    facet_vfio_device_close(device);
    device = NULL;
    /* The group stays open for the other function. */
    expect_status(facet_vfio_space_map(space, IOVA, memory, 4096, READ_WRITE, &error), FACET_OK, "");
    facet_vfio_device_close(sound);
    assert_null(space->groups);
}

static void test_two_groups_share_a_space(void **state)
{
    struct facet_vfio_device *other = NULL;

    open_gpu();
    expect_status(facet_vfio_device_open(space, FAKE_OTHER, &other, &error), FACET_OK, "");
    facet_vfio_device_close(device);
    device = NULL;
    assert_int_equal(space->groups->number, 8);
    assert_true(space->has_iommu);
    facet_vfio_device_close(other);
    assert_false(space->has_iommu);
}

static void test_a_group_that_is_not_viable_is_refused(void **state)
{
    expect_status(open_space(FACET_VFIO_GROUP), FACET_OK, "");
    fake.not_viable = true;
    fake_vfio_driver(&fake, FAKE_SOUND, "snd_hda_intel");
    expect_status(
        open_function(FAKE_GPU), FACET_BAD_STATE,
        "0000:01:00.0: group 7 is not viable: the host still drives 0000:01:00.1 (snd_hda_intel); bind the whole");
    fake_vfio_driver(&fake, FAKE_SOUND, NULL);
    expect_status(open_function(FAKE_GPU), FACET_BAD_STATE, "the host drives a member");
    fake_vfio_driver(&fake, FAKE_SOUND, "nvgrace_gpu_vfio_pci");
    expect_status(open_function(FAKE_GPU), FACET_BAD_STATE, "the host drives a member");
    fake_vfio_driver(&fake, FAKE_SOUND, NULL);
    fake.not_viable = false;
    fake.in_other_space = true;
    expect_status(open_function(FAKE_GPU), FACET_BUSY, "group 7 is in another address space");
}

static void test_a_busy_group_is_refused(void **state)
{
    char holder[128];

    expect_status(open_space(FACET_VFIO_GROUP), FACET_OK, "");
    fake.open_errno = EBUSY;
    expect_status(open_function(FAKE_GPU), FACET_BUSY,
                  "0000:01:00.0: opening /dev/vfio/7: another process has it open");
    fake_vfio_write(&fake, "proc/4711/comm", "qemu-system-x86\\n");
    fake_vfio_write(&fake, "proc/4711/fd/other", "");
    snprintf(holder, sizeof holder, "%s/proc/4711/fd/9", fake.root);
    assert_int_equal(symlink("/dev/vfio/7", holder), 0);
    expect_status(open_function(FAKE_GPU), FACET_BUSY, "process 4711 (qemu-system-x86) has it open");
    expect_status(open_function(FAKE_OTHER), FACET_BUSY, "/dev/vfio/8: another process has it open");
    /* The group is also busy while its function is open through its own node. */
    assert_int_equal(unlink(holder), 0);
    assert_int_equal(symlink("/dev/vfio/devices/vfio0", holder), 0);
    expect_status(open_function(FAKE_GPU), FACET_BUSY, "/dev/vfio/7: another process has it open");
    add_iommufd();
    expect_status(open_function(FAKE_GPU), FACET_BUSY, "/dev/vfio/7: process 4711 (qemu-system-x86) has it open");
    fake.open_errno = EACCES;
    expect_status(open_function(FAKE_GPU), FACET_PERMISSION, "0000:01:00.0: opening /dev/vfio/7");
}

static void test_a_function_of_another_driver_is_refused(void **state)
{
    expect_status(open_space(FACET_VFIO_GROUP), FACET_OK, "");
    fake.open_errno = ENOENT;
    fake_vfio_driver(&fake, FAKE_GPU, "nouveau");
    expect_status(open_function(FAKE_GPU), FACET_BAD_STATE, "the function has the driver nouveau, not vfio-pci");
    fake_vfio_driver(&fake, FAKE_GPU, NULL);
    expect_status(open_function(FAKE_GPU), FACET_BAD_STATE, "the function has no driver, not vfio-pci");
    fake.open_errno = 0;
    fake.no_descriptor = true;
    expect_status(open_function(FAKE_GPU), FACET_BAD_STATE, "group 7 is open, but this function has no driver");
    fake.no_descriptor = false;
    fake.not_pci = true;
    expect_status(open_function(FAKE_GPU), FACET_UNSUPPORTED, "not as a PCI function");
    fake.not_pci = false;
    fake.too_many_regions = true;
    expect_status(open_function(FAKE_GPU), FACET_CORRUPT, "4294967295 regions");
    assert_null(space->groups);
}

static void test_refusals_of_iommufd_name_the_reason(void **state)
{
    add_iommufd();
    expect_status(open_space(FACET_VFIO_CDEV), FACET_OK, "");
    fake.bind_errno = EBUSY;
    expect_status(open_function(FAKE_GPU), FACET_BUSY, "joining iommufd: another process has it open");
    fake_vfio_driver(&fake, FAKE_SOUND, "snd_hda_intel");
    expect_status(open_function(FAKE_GPU), FACET_BAD_STATE, "the host still drives 0000:01:00.1 (snd_hda_intel)");
    fake.bind_errno = EINVAL;
    expect_status(open_function(FAKE_GPU), FACET_BUSY, "joining iommufd: another process has it open");
    fake.bind_errno = EPERM;
    expect_status(open_function(FAKE_GPU), FACET_BAD_STATE, "the host still drives 0000:01:00.1 (snd_hda_intel)");
    fake_vfio_driver(&fake, FAKE_SOUND, "vfio-pci");
    expect_status(open_function(FAKE_GPU), FACET_UNSUPPORTED, "interrupts are not remapped");
    fake.bind_errno = ENODEV;
    expect_status(open_function(FAKE_GPU), FACET_IO, "0000:01:00.0: joining iommufd");
    fake.bind_errno = 0;
    fake.open_errno = EBUSY;
    expect_status(open_function(FAKE_GPU), FACET_BUSY, "/dev/vfio/devices/vfio0: another process has it open");
    expect_status(open_function(FAKE_OTHER), FACET_UNSUPPORTED, "no character devices of VFIO, only groups");
    fake_vfio_driver(&fake, FAKE_OTHER, "nouveau");
    expect_status(open_function(FAKE_OTHER), FACET_BAD_STATE, "it has the driver nouveau, not vfio-pci");
}

/* --- regions --- */

static void test_regions_are_described(void **state)
{
    struct facet_vfio_region region = {0};

    open_gpu();
    expect_status(facet_vfio_device_region(device, FACET_VFIO_BAR, &region, &error), FACET_OK, "");
    assert_int_equal(region.bytes, FAKE_BAR_BYTES);
    assert_true(region.can_map && !region.areas);
    expect_status(facet_vfio_device_region(device, 1, &region, &error), FACET_OK, "");
    assert_int_equal(region.bytes, 0);
    expect_status(facet_vfio_device_region(device, 2, &region, &error), FACET_OK, "");
    assert_int_equal(region.area_count, 2);
    assert_int_equal(region.areas[1].offset, 131072);
    expect_status(facet_vfio_device_region(device, FACET_VFIO_VGA, &region, &error), FACET_OK, "");
    assert_int_equal(region.bytes, 0);
    expect_status(facet_vfio_device_region(device, FACET_VFIO_ROM, &region, &error), FACET_OK, "");
    assert_int_equal(region.access, FACET_VFIO_READ);
    expect_status(facet_vfio_device_region(device, 9, &region, &error), FACET_OUT_OF_RANGE, "it has 9 regions");
}

static void test_regions_are_read_and_written(void **state)
{
    uint8_t bytes[8] = {0};

    open_gpu();
    expect_status(facet_vfio_device_read(device, FACET_VFIO_CONFIG, 0, bytes, 4, &error), FACET_OK, "");
    assert_memory_equal(bytes, "\xde\x10\x30\x23", 4);
    expect_status(facet_vfio_device_read(device, FACET_VFIO_CONFIG, 4094, bytes, 4, &error), FACET_OUT_OF_RANGE,
                  "0xffe");
    expect_status(facet_vfio_device_read(device, FACET_VFIO_CONFIG, UINT64_MAX, bytes, 4, &error), FACET_OUT_OF_RANGE,
                  "");
    expect_status(facet_vfio_device_read(device, 1, 0, bytes, 1, &error), FACET_OUT_OF_RANGE, "region 1 has 0");
    expect_status(facet_vfio_device_write(device, FACET_VFIO_BAR, 16, "facet", 5, &error), FACET_OK, "");
    expect_status(facet_vfio_device_read(device, FACET_VFIO_BAR, 16, bytes, 5, &error), FACET_OK, "");
    assert_memory_equal(bytes, "facet", 5);
    expect_status(facet_vfio_device_enable(device, &error), FACET_OK, "");
    expect_status(facet_vfio_device_read(device, FACET_VFIO_CONFIG, 4, bytes, 2, &error), FACET_OK, "");
    assert_int_equal(bytes[0], 6); /* the command register: memory (2) and bus mastering (4) are enabled */
    /* The file ends before the region does. */
    assert_int_equal(ftruncate(device->fd, (off_t)FAKE_REGION(FACET_VFIO_CONFIG) + 2), 0);
    expect_status(facet_vfio_device_read(device, FACET_VFIO_CONFIG, 0, bytes, 4, &error), FACET_IO, "only 2 of 4");
}

static void test_a_region_is_mapped(void **state)
{
    void *bar = NULL;
    char byte = 0;

    open_gpu();
    expect_status(facet_vfio_device_map(device, FACET_VFIO_BAR, 4096, 8192, &bar, &error), FACET_OK, "");
    *(volatile char *)bar = 'x';
    expect_status(facet_vfio_device_read(device, FACET_VFIO_BAR, 4096, &byte, 1, &error), FACET_OK, "");
    assert_int_equal(byte, 'x');
    facet_vfio_unmap(bar, 8192);
    bar = NULL;
    expect_status(facet_vfio_device_map(device, 4, 0, 256, &bar, &error), FACET_UNSUPPORTED, "on this machine");
    expect_status(facet_vfio_device_map(device, 2, 0, FAKE_BAR_BYTES, &bar, &error), FACET_UNSUPPORTED,
                  "see its areas");
    expect_status(facet_vfio_device_map(device, 2, 65536, 4096, &bar, &error), FACET_UNSUPPORTED, "see its areas");
    expect_status(facet_vfio_device_map(device, FACET_VFIO_BAR, FAKE_BAR_BYTES, 4096, &bar, &error), FACET_OUT_OF_RANGE,
                  "");
    assert_null(bar);
    expect_status(facet_vfio_device_map(device, 2, 135168, 4096, &bar, &error), FACET_OK, "");
    facet_vfio_unmap(bar, 4096);
    facet_vfio_unmap(NULL, 4096);
}

/* --- interrupts, reset --- */

static void test_interrupts_reach_their_eventfds(void **state)
{
    struct facet_vfio_interrupt_info info;
    int signals[8] = {0};

    signals[0] = eventfd(0, EFD_CLOEXEC);
    open_gpu();
    expect_status(facet_vfio_device_interrupt_info(device, FACET_VFIO_INTX, &info, &error), FACET_OK, "");
    assert_true(info.count == 1 && info.auto_masked);
    expect_status(facet_vfio_device_interrupt_info(device, FACET_VFIO_ERROR, &info, &error), FACET_OK, "");
    assert_int_equal(info.count, 0);
    expect_status(facet_vfio_device_interrupt(device, FACET_VFIO_MSIX, signals, 8, &error), FACET_OK, "");
    assert_int_equal(fake.eventfd, signals[0]);
    assert_int_equal(fake.eventfd_kind, FACET_VFIO_MSIX);
    expect_status(facet_vfio_device_interrupt(device, FACET_VFIO_MSIX, NULL, 0, &error), FACET_OK, "");
    assert_int_equal(fake.eventfd, -1);
    expect_status(facet_vfio_device_interrupt(device, FACET_VFIO_MSI, signals, 2, &error), FACET_OUT_OF_RANGE,
                  "0000:01:00.0: 2, but it has 1 MSI interrupts");
    expect_status(facet_vfio_device_interrupt(device, FACET_VFIO_ERROR, signals, 1, &error), FACET_OUT_OF_RANGE,
                  "0 error");
    expect_status(facet_vfio_device_interrupt(device, (enum facet_vfio_interrupt)7, signals, 1, &error),
                  FACET_OUT_OF_RANGE, "5 kinds");
    expect_status(facet_vfio_device_unmask(device, (enum facet_vfio_interrupt)7, &error), FACET_OUT_OF_RANGE,
                  "5 kinds");
    expect_status(facet_vfio_device_unmask(device, FACET_VFIO_INTX, &error), FACET_OK, "");
    assert_int_equal(fake.unmasked, 1);
    close(signals[0]);
}

static void test_device_and_bus_are_reset_or_refused(void **state)
{
    open_gpu();
    expect_status(facet_vfio_device_reset(device, &error), FACET_OK, "");
    assert_int_equal(fake.resets, 1);
    device->info.flags = VFIO_DEVICE_FLAGS_PCI;
    expect_status(facet_vfio_device_reset(device, &error), FACET_UNSUPPORTED, "cannot be reset alone");
    expect_status(facet_vfio_device_reset_bus(device, &error), FACET_OK, "");
    fake.hot_reset_group = 9;
    expect_status(facet_vfio_device_reset_bus(device, &error), FACET_BAD_STATE, "would hit 0000:01:02.0 of group 9");
    assert_int_equal(fake.bus_resets, 1);
    fake.fail_at = fake.calls + 1;
    fake.fail_errno = ENODEV;
    expect_status(facet_vfio_device_reset_bus(device, &error), FACET_UNSUPPORTED, "no bridge above it");
}

/* --- chains of capabilities --- */

static void test_capability_chains_are_read_safely(void **state)
{
    struct {
        uint32_t head[4];
        struct vfio_info_cap_header caps[3]; /* at the offsets 16, 24 and 32 */
    } answer = {.caps = {{.id = 1, .next = 24}, {.id = 2, .next = 32}, {.id = 3, .next = 0}}};
    uint32_t bytes = sizeof answer;

    assert_int_equal(vfio_capability_find(&answer, bytes, 16, 1, 8), 16);
    assert_int_equal(vfio_capability_find(&answer, bytes, 16, 3, 8), 32);
    assert_int_equal(vfio_capability_find(&answer, bytes, 16, 3, 9), 0); /* the structure would not fit */
    assert_int_equal(vfio_capability_find(&answer, bytes, 16, 4, 8), 0);
    assert_int_equal(vfio_capability_find(&answer, bytes, 0, 1, 8), 0);
    assert_int_equal(vfio_capability_find(&answer, bytes, bytes, 1, 8), 0);
    assert_int_equal(vfio_capability_find(&answer, 4, 1, 1, 8), 0);
    answer.caps[2].next = 16;
    assert_int_equal(vfio_capability_find(&answer, bytes, 16, 9, 8), 0);
    answer.caps[0].next = UINT32_MAX;
    assert_int_equal(vfio_capability_find(&answer, bytes, 16, 9, 8), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_iommufd_is_preferred_to_groups),
        CASE(test_space_without_a_usable_interface_is_refused),
        CASE(test_memory_needs_an_open_device),
        CASE(test_memory_is_mapped_by_group),
        CASE(test_memory_is_mapped_by_iommufd),
        CASE(test_too_many_mappings_are_refused),
        CASE(test_memlock_error_names_the_limit),
        CASE(test_memlock_error_of_iommufd_names_the_limit),
        CASE(test_wrong_addresses_are_refused),
        CASE(test_two_functions_of_a_group_share_it),
        CASE(test_two_groups_share_a_space),
        CASE(test_a_group_that_is_not_viable_is_refused),
        CASE(test_a_busy_group_is_refused),
        CASE(test_a_function_of_another_driver_is_refused),
        CASE(test_refusals_of_iommufd_name_the_reason),
        CASE(test_regions_are_described),
        CASE(test_regions_are_read_and_written),
        CASE(test_a_region_is_mapped),
        CASE(test_interrupts_reach_their_eventfds),
        CASE(test_device_and_bus_are_reset_or_refused),
        CASE(test_capability_chains_are_read_safely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
