/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of the ways in which a program loads Facet's libcuda.so.1, "ours", of the driver that this library finds,
 * and of the devices that the program sees. A program prints "init 100" for CUDA_ERROR_NO_DEVICE and "init 802" for
 * CUDA_ERROR_SYSTEM_NOT_READY.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "limiter/refused.h"

/* The output of a program that sees exactly these devices of the machine: "1,0". */
static const char *output_of_devices(const char *devices)
{
    static char text[256];
    char uuid[64];

    snprintf(text, sizeof text, "init 0, %zu:", (strlen(devices) + 1) / 2);
    for (const char *at = devices; *at; at += at[1] ? 2 : 1) {
        fixture_uuid((uint32_t)(*at - '0'), uuid);
        snprintf(text + strlen(text), sizeof text - strlen(text), " %s", uuid);
    }
    return text;
}

static const char *output_of_both_programs(const char *devices)
{
    static char text[512];

    snprintf(text, sizeof text, "%s\n%s", output_of_devices(devices), output_of_devices(devices));
    return text;
}

static void preload_ours(void)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/libcuda.so.1", getenv(FIXTURE_OURS));
    setenv("LD_PRELOAD", path, 1);
}

static void test_a_program_that_opens_the_driver_by_name_sees_its_vgpu(void **state)
{
    fixture_enter("1");
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), output_of_devices("1"));
    assert_string_equal(fixture_run("program", "libcuda.so", NULL), output_of_devices("1"));
}

static void test_a_program_linked_to_the_driver_sees_its_vgpu(void **state)
{
    fixture_enter("1");
    assert_string_equal(fixture_run("program-linked", NULL, NULL), output_of_devices("1"));
}

/* The search path leads to the vendor's library, but the loader takes the preloaded one. */
static void test_our_preloaded_library_comes_before_the_search_path(void **state)
{
    fixture_enter("1");
    fixture_library_path(FIXTURE_FAKE);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), output_of_devices("0,1"));
    preload_ours();
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), output_of_devices("1"));
    assert_string_equal(fixture_run("program-linked", NULL, NULL), output_of_devices("1"));
}

static void test_a_program_opens_our_library_that_is_preloaded(void **state)
{
    fixture_enter("1");
    preload_ours();
    assert_string_equal(fixture_run("program", "libcuda.so.1", "libcuda.so"), output_of_both_programs("1"));
}

/* Both copies serve the same vGPU, each with a slot of its own. */
static void test_a_copy_of_our_library_is_not_taken_for_the_driver(void **state)
{
    char folder[] = "/tmp/facet-cuda-copy-XXXXXX", copy[128], command[4400];

    fixture_enter("1");
    preload_ours();
    assert_non_null(mkdtemp(folder));
    snprintf(copy, sizeof copy, "%s/libcuda.so.1", folder);
    snprintf(command, sizeof command, "LD_PRELOAD= cp '%s/libcuda.so.1' '%s'", getenv(FIXTURE_OURS), copy);
    assert_int_equal(system(command), 0);
    const char *output = fixture_run("program", copy, "libcuda.so.1");
    unlink(copy);
    rmdir(folder);
    assert_string_equal(output, output_of_both_programs("1"));
}

static void test_the_driver_may_be_named_by_its_path(void **state)
{
    char path[4096];

    fixture_enter("0");
    fixture_library_path(FIXTURE_OURS);
    snprintf(path, sizeof path, "%s/libcuda.so.1", getenv(FIXTURE_FAKE));
    setenv("FACET_REAL_CUDA", path, 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), output_of_devices("0"));
    setenv("FACET_REAL_CUDA", "/nonexistent/libcuda.so.1", 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), "init 100");
}

static void test_outside_a_vgpu_all_devices_are_seen(void **state)
{
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), output_of_devices("0,1"));
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    assert_string_equal(fixture_run("program-linked", NULL, NULL), output_of_devices("1"));
}

static void test_several_vgpus_keep_their_order(void **state)
{
    fixture_enter("0,1");
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), output_of_devices("0,1"));
    fixture_enter("1,0");
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), output_of_devices("1,0"));
}

/* CUDA_VISIBLE_DEVICES counts the vGPUs: the program can choose among them, and reach nothing else. */
static void test_program_chooses_among_its_vgpus(void **state)
{
    char uuid[64];

    fixture_enter("1");
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), output_of_devices("1"));
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), "init 100");
    fixture_uuid(0, uuid);
    setenv("CUDA_VISIBLE_DEVICES", uuid, 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), "init 100");
    fixture_enter("0,1");
    setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), output_of_devices("1,0"));
    setenv("CUDA_VISIBLE_DEVICES", uuid, 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), output_of_devices("0"));
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), "init 100");
}

static void assert_refused_because(const char *dir, const char *expected)
{
    char reason[FACET_REFUSED_REASON_SIZE];
    uint32_t count;

    assert_true(facet_refused_read(dir, &count, reason));
    assert_int_equal(count, 1);
    if (!strstr(reason, expected))
        fail_msg("'%s' does not say '%s'", reason, expected);
}

/* A program must not run without its limits. */
static void test_init_fails_in_a_vgpu_that_cannot_be_used(void **state)
{
    struct test_segment other;

    setenv("FACET_VGPU_DIR", "/nonexistent", 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), "init 802");
    assert_string_equal(fixture_run("program-linked", NULL, NULL), "init 802");
    setenv("FACET_VGPU_DIR", "", 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), "init 802");
    fixture_enter("0,0");
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), "init 802");
    assert_refused_because(fixture.segments[0].dir, "expected each device once in FACET_VGPU_DIR");
    assert_true(test_segment_make(&other, "opencl/Some Device", FIXTURE_MEMORY));
    setenv("FACET_VGPU_DIR", other.dir, 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), "init 802");
    assert_refused_because(other.dir, "expected a device of this vendor");
    test_segment_remove(&other);
    assert_true(test_segment_make(&other, "GPU-1,GPU-2", FIXTURE_MEMORY));
    setenv("FACET_VGPU_DIR", other.dir, 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), "init 802");
    assert_refused_because(other.dir, "expected a device with an address that has no ','");
    test_segment_remove(&other);
}

static void test_without_a_driver_init_finds_no_device(void **state)
{
    fixture_library_path(FIXTURE_OURS);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), "init 100");
    fixture_enter("0");
    assert_string_equal(fixture_run("program-linked", NULL, NULL), "init 100");
}

static void test_a_driver_older_than_our_list_works(void **state)
{
    fixture_enter("1");
    fixture_library_path(FIXTURE_OURS "," FIXTURE_OLD);
    setenv("FAKE_CUDA_VERSION", "12000", 1);
    assert_string_equal(fixture_run("program", "libcuda.so.1", NULL), output_of_devices("1"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_program_that_opens_the_driver_by_name_sees_its_vgpu),
        TEST(test_a_program_linked_to_the_driver_sees_its_vgpu),
        TEST(test_our_preloaded_library_comes_before_the_search_path),
        TEST(test_a_program_opens_our_library_that_is_preloaded),
        TEST(test_a_copy_of_our_library_is_not_taken_for_the_driver),
        TEST(test_the_driver_may_be_named_by_its_path),
        TEST(test_outside_a_vgpu_all_devices_are_seen),
        TEST(test_several_vgpus_keep_their_order),
        TEST(test_program_chooses_among_its_vgpus),
        TEST(test_init_fails_in_a_vgpu_that_cannot_be_used),
        TEST(test_without_a_driver_init_finds_no_device),
        TEST(test_a_driver_older_than_our_list_works),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
