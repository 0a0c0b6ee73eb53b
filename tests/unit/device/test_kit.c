/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of the provider kit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "provider_kit.h"

static void texts_are_cleaned_cut_and_trimmed(void **state)
{
    char text[8];

    FACET_KIT_TEXT(text, "  GPU\n1 ");
    assert_string_equal(text, "GPU_1");
    FACET_KIT_TEXT(text, "0123456789");
    assert_string_equal(text, "0123456");
    FACET_KIT_TEXT(text, "012345  9");
    assert_string_equal(text, "012345");
    FACET_KIT_TEXT(text, "   ");
    assert_string_equal(text, "");
    FACET_KIT_TEXT(text, "\xc2\xb5");
    assert_string_equal(text, "__");
}

static void errors_are_filled_and_cut(void **state)
{
    struct facet_error error;

    memset(&error, 'x', sizeof error);
    assert_int_equal(facet_kit_fail(&error, FACET_BUSY, "%d %0400d", 7, 0), FACET_BUSY);
    assert_int_equal(error.status, FACET_BUSY);
    assert_string_equal(error.argument, "");
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
    assert_int_equal(facet_kit_fail(NULL, FACET_BUSY, "x"), FACET_BUSY);
}

static void a_host_of_another_major_version_is_refused(void **state)
{
    struct facet_provider_host host = {.size = sizeof host, .abi_major = FACET_PROVIDER_ABI_MAJOR, .abi_minor = 99};

    assert_int_equal(facet_kit_check_host(&host), FACET_OK);
    host.size += 8;
    assert_int_equal(facet_kit_check_host(&host), FACET_OK);
    host.abi_major++;
    assert_int_equal(facet_kit_check_host(&host), FACET_ABI_MISMATCH);
    host.abi_major--;
    host.size = sizeof host - 1;
    assert_int_equal(facet_kit_check_host(&host), FACET_ABI_MISMATCH);
}

static const struct facet_device_info devices[3] = {{.index = 0, .kind = 1}, {.index = 1, .kind = 2}, {.index = 2}};

static void lists_follow_the_two_call_rule(void **state)
{
    struct facet_device_info infos[3];
    uint32_t count = 99;

    memset(infos, 0x55, sizeof infos);
    assert_int_equal(facet_kit_list(devices, 3, NULL, sizeof infos[0], 0, &count, NULL), FACET_TOO_SMALL);
    assert_int_equal(count, 3);
    assert_int_equal(facet_kit_list(devices, 3, infos, sizeof infos[0], 2, &count, NULL), FACET_TOO_SMALL);
    assert_int_equal(infos[0].kind, 0x55555555);
    assert_int_equal(facet_kit_list(devices, 3, infos, sizeof infos[0], 3, &count, NULL), FACET_OK);
    assert_int_equal(infos[1].kind, 2);
    assert_int_equal(infos[2].index, 2);
    assert_int_equal(infos[2].size, sizeof infos[2]);
    assert_int_equal(facet_kit_list(devices, 0, NULL, sizeof infos[0], 0, &count, NULL), FACET_OK);
    assert_int_equal(count, 0);
}

/* A host with shorter structs gets the part that fits into each; for longer structs, items keep the host's stride. */
static void lists_keep_to_the_hosts_struct_size(void **state)
{
    unsigned char infos[2 * 1000];
    uint32_t count = 0, size;

    memset(infos, 0x55, sizeof infos);
    assert_int_equal(facet_kit_list(devices, 2, infos, 12, 2, &count, NULL), FACET_OK);
    memcpy(&size, infos + 12, sizeof size);
    assert_int_equal(size, 12);
    assert_int_equal(infos[12 + 4], 1);
    assert_int_equal(infos[24], 0x55);
    assert_int_equal(facet_kit_list(devices, 2, infos, 1000, 2, &count, NULL), FACET_OK);
    assert_int_equal(infos[1000 + 4], 1);
    assert_int_equal(infos[744], 0x55); /* nothing is written behind the 744 bytes that the kit knows */
    count = 99;
    assert_int_equal(facet_kit_list(devices, 2, infos, 3, 2, &count, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(count, 99);
}

/* The published FNV-1a hash of "a" is d228cb696f1a8caf78912b704e4a8964; version and variant take six of its bits. */
static void made_up_uuids_are_stable(void **state)
{
    char text[37], other[37];

    facet_kit_uuid_of("a", text);
    assert_string_equal(text, "d228cb69-6f1a-8caf-b891-2b704e4a8964");
    facet_kit_uuid_of("b", other);
    assert_string_not_equal(text, other);
}

static void lists_of_any_struct_follow_the_two_call_rule(void **state)
{
    static const struct facet_container_item items[2] = {{.kind = 1}, {.kind = 2}};
    struct facet_container_item got[2] = {{0}};
    uint32_t count = 99;

    assert_int_equal(facet_kit_list_items(items, sizeof items[0], 2, got, sizeof got[0], 2, NULL, NULL),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_kit_list_items(items, sizeof items[0], 2, NULL, sizeof got[0], 2, &count, NULL),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(count, 99);
    assert_int_equal(facet_kit_list_items(items, sizeof items[0], 2, got, sizeof got[0], 2, &count, NULL), FACET_OK);
    assert_int_equal(count, 2);
    assert_int_equal(got[1].kind, 2);
    assert_int_equal(got[1].size, sizeof got[1]);
}

static void structs_keep_to_the_hosts_size(void **state)
{
    const struct facet_memory_info source = {.page_bytes = 7, .total_bytes = 8, .used_bytes = 9};
    struct facet_memory_info target = {.size = 16, .used_bytes = 99};

    assert_int_equal(facet_kit_struct(&source, sizeof source, &target, NULL), FACET_OK);
    assert_int_equal(target.size, 16);
    assert_int_equal(target.total_bytes, 8);
    assert_int_equal(target.used_bytes, 99);
    target.size = 1000;
    assert_int_equal(facet_kit_struct(&source, sizeof source, &target, NULL), FACET_OK);
    assert_int_equal(target.size, sizeof source);
    target.size = 3;
    assert_int_equal(facet_kit_struct(&source, sizeof source, &target, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_kit_struct(&source, sizeof source, NULL, NULL), FACET_INVALID_ARGUMENT);
}

/* The struct of a 1.1 host has 112 bytes; the bytes behind it are not part of the launch. */
static void launches_of_any_version_are_taken(void **state)
{
    struct {
        struct facet_launch known;
        unsigned char more[64];
    } newer = {.known = {.module = 7, .dimensions = 2, .kernel = "k", .offset = {3, 4, 5}}};
    struct facet_launch source = newer.known, target;
    struct facet_error error = {0};

    source.size = sizeof source;
    assert_int_equal(facet_kit_launch(&source, &target, NULL), FACET_OK);
    assert_memory_equal(&target, &source, sizeof source);
    newer.known.size = sizeof newer;
    assert_int_equal(facet_kit_launch(&newer.known, &target, NULL), FACET_OK);
    assert_memory_equal(&target, &source, sizeof source);
    newer.more[63] = 1; /* a field that this provider does not know is refused, not lost */
    assert_int_equal(facet_kit_launch(&newer.known, &target, &error), FACET_UNSUPPORTED);
    assert_string_equal(error.message, "launch: byte 191 of 192 is set: this provider knows only 128");
    newer.known.size = UINT32_MAX;
    assert_int_equal(facet_kit_launch(&newer.known, &target, NULL), FACET_INVALID_ARGUMENT);
    source.reserved = 1;
    assert_int_equal(facet_kit_launch(&source, &target, NULL), FACET_UNSUPPORTED);
    source.reserved = 0;
    source.size = 112;
    assert_int_equal(facet_kit_launch(&source, &target, NULL), FACET_OK);
    assert_int_equal(target.size, sizeof target);
    assert_int_equal(target.module, 7);
    assert_string_equal(target.kernel, "k");
    assert_int_equal(target.offset[0] | target.offset[1] | target.offset[2] | target.reserved, 0);
    source.size = 111;
    assert_int_equal(facet_kit_launch(&source, &target, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_kit_launch(NULL, &target, NULL), FACET_INVALID_ARGUMENT);
    source.size = sizeof source;
    source.dimensions = 4;
    assert_int_equal(facet_kit_launch(&source, &target, NULL), FACET_OUT_OF_RANGE);
}

static void texts_follow_the_two_call_rule(void **state)
{
    char text[4] = "xyz";
    uint32_t size = 0;

    assert_int_equal(facet_kit_text_out("a=1", NULL, 0, &size, NULL), FACET_TOO_SMALL);
    assert_int_equal(size, 4);
    assert_int_equal(facet_kit_text_out("a=1", text, 3, &size, NULL), FACET_TOO_SMALL);
    assert_string_equal(text, "xyz");
    assert_int_equal(facet_kit_text_out("a=1", text, 4, &size, NULL), FACET_OK);
    assert_string_equal(text, "a=1");
    assert_int_equal(facet_kit_text_out("a=1", text, 4, NULL, NULL), FACET_INVALID_ARGUMENT);
}

static void devices_and_workers_are_checked(void **state)
{
    static const char longest[] = "a23456789012345678901234567890123456789012345678901234567890123";

    assert_int_equal(facet_kit_check_device(1, 2, NULL), FACET_OK);
    assert_int_equal(facet_kit_check_device(2, 2, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_kit_check_worker(longest, NULL), FACET_OK);
    assert_int_equal(facet_kit_check_worker("a.B-c_9", NULL), FACET_OK);
    for (const char *const *bad = (const char *const[]){"", ".a", "-a", "a b", "a/b", NULL}; *bad; bad++)
        assert_int_equal(facet_kit_check_worker(*bad, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_kit_check_worker(NULL, NULL), FACET_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_cleaned_cut_and_trimmed),
        cmocka_unit_test(errors_are_filled_and_cut),
        cmocka_unit_test(a_host_of_another_major_version_is_refused),
        cmocka_unit_test(lists_of_any_struct_follow_the_two_call_rule),
        cmocka_unit_test(structs_keep_to_the_hosts_size),
        cmocka_unit_test(launches_of_any_version_are_taken),
        cmocka_unit_test(texts_follow_the_two_call_rule),
        cmocka_unit_test(devices_and_workers_are_checked),
        cmocka_unit_test(lists_follow_the_two_call_rule),
        cmocka_unit_test(lists_keep_to_the_hosts_struct_size),
        cmocka_unit_test(made_up_uuids_are_stable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
