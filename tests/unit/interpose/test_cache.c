/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests of reading the dynamic loader's cache: made-up caches, whole and damaged, and this machine's cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "interpose/kit/cache.h"

/* The flags of an entry for this processor, and of an entry for 32-bit programs. */
#if defined(__x86_64__)
#define OURS 0x0303
#else
#define OURS 0x0a03
#endif
#define OTHER 0x0803

/* Sizes in bytes: of the header and of an entry, and of a cache in the older format with two entries. */
#define HEADER    48
#define ENTRY     24
#define OLD_CACHE (16 + 2 * 12)

static char file[64] = "/tmp/facet-cache-XXXXXX", seen[256];
static unsigned char image[512];
static size_t image_size;

static void put_word(size_t at, uint32_t value)
{
    memcpy(image + at, &value, sizeof value);
}

/*
 * Makes a cache of three entries, behind a cache of `before` bytes in the older format: an entry of another processor,
 * an entry of another library, and the wanted entry. `key` and `value` are offsets in `strings`.
 */
static void build_cache(size_t before)
{
    static const char strings[] = "libone.so\0/lib/one\0libtwo.so\0/lib/two\0/lib32/one";
    const uint32_t base = HEADER + 3 * ENTRY;
    const struct {
        uint32_t flags, key, value;
    } entries[] = {{OTHER, 0, 38}, {OURS, 19, 29}, {OURS, 0, 10}};

    memset(image, 0, sizeof image);
    if (before) {
        memcpy(image, "ld.so-1.7.0", 11);
        put_word(12, (uint32_t)(before - 16) / 12);
    }
    memcpy(image + before, "glibc-ld.so.cache1.1", 20);
    put_word(before + 20, 3);
    put_word(before + 24, sizeof strings);
    for (size_t i = 0; i < 3; i++) {
        put_word(before + HEADER + i * ENTRY, entries[i].flags);
        put_word(before + HEADER + i * ENTRY + 4, base + entries[i].key);
        put_word(before + HEADER + i * ENTRY + 8, base + entries[i].value);
    }
    memcpy(image + before + base, strings, sizeof strings);
    image_size = before + base + sizeof strings;
}

static bool note_path(const char *path, void *context)
{
    snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s;", path);
    return context && strcmp(path, context) == 0;
}

static const char *paths_of_cache(const char *soname, size_t size)
{
    FILE *out = fopen(file, "w");

    assert_non_null(out);
    assert_int_equal(fwrite(image, 1, size, out), size);
    fclose(out);
    seen[0] = 0;
    facet_cache_each(file, soname, note_path, NULL);
    return seen;
}

static void test_only_entries_of_this_processor_are_found(void **state)
{
    build_cache(0);
    assert_string_equal(paths_of_cache("libone.so", image_size), "/lib/one;");
    assert_string_equal(paths_of_cache("libtwo.so", image_size), "/lib/two;");
    assert_string_equal(paths_of_cache("libthree.so", image_size), "");
}

static void test_entries_behind_the_older_format_are_found(void **state)
{
    build_cache(OLD_CACHE);
    assert_string_equal(paths_of_cache("libone.so", image_size), "/lib/one;");
}

static void test_an_entry_that_is_taken_ends_the_search(void **state)
{
    build_cache(0);
    put_word(HEADER + 4, HEADER + 3 * ENTRY); /* both entries of this processor are "libone.so" */
    put_word(HEADER, OURS);
    paths_of_cache("libone.so", image_size);
    assert_string_equal(seen, "/lib32/one;/lib/one;");
    seen[0] = 0;
    assert_true(facet_cache_each(file, "libone.so", note_path, "/lib32/one"));
    assert_string_equal(seen, "/lib32/one;");
}

/* Whatever the file's size and the numbers in it are, no byte outside the file is read. */
static void test_damaged_cache_is_read_safely(void **state)
{
    build_cache(0);
    for (size_t size = 1; size < image_size; size++)
        paths_of_cache("libone.so", size);
    for (size_t at = 0; at + 4 <= image_size; at += 4) {
        build_cache(0);
        put_word(at, UINT32_MAX);
        paths_of_cache("libone.so", image_size);
        build_cache(OLD_CACHE);
        put_word(at, 0x7ffffff0);
        paths_of_cache("libone.so", image_size);
    }
    memset(image, 0xff, sizeof image);
    assert_string_equal(paths_of_cache("libone.so", sizeof image), "");
    assert_false(facet_cache_each("/nonexistent/cache", "libone.so", note_path, NULL));
}

static void test_cache_of_this_machine_is_read(void **state)
{
    if (access("/etc/ld.so.cache", R_OK) != 0)
        skip();
    seen[0] = 0;
    facet_cache_each("/etc/ld.so.cache", "libc.so.6", note_path, NULL);
    assert_non_null(strstr(seen, "libc.so.6;"));
}

static int make_file(void **state)
{
    int fd = mkstemp(file);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    return unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_entries_of_this_processor_are_found),
        cmocka_unit_test(test_entries_behind_the_older_format_are_found),
        cmocka_unit_test(test_an_entry_that_is_taken_ends_the_search),
        cmocka_unit_test(test_damaged_cache_is_read_safely),
        cmocka_unit_test(test_cache_of_this_machine_is_read),
    };

    return cmocka_run_group_tests(tests, make_file, remove_file);
}
