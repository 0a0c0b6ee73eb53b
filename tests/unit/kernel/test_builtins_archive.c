/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests of reading an archive of builtin functions. Never: needs LLVM. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/builtins/archive.h"

struct tiny {
    struct facet_archive_header header;
    struct facet_archive_symbol symbols[2];
    struct facet_archive_shard shards[1];
    char names[8];
    char body[8];
};
static const struct tiny tiny = {
    {FACET_ARCHIVE_MAGIC, FACET_ARCHIVE_VERSION, 2, 1, 8, sizeof(struct tiny)},
    {{0, 0}, {4, 0}},
    {{offsetof(struct tiny, body), 8}},
    "cos\0sin",
    "bitcode",
};

static void an_archive_is_read(void **state)
{
    struct facet_archive archive;

    assert_int_equal(facet_archive_read(&tiny, sizeof tiny, &archive, NULL), FACET_OK);
    assert_int_equal(facet_archive_find(&archive, "cos"), 0);
    assert_int_equal(facet_archive_find(&archive, "sin"), 0);
    assert_int_equal(facet_archive_find(&archive, "si"), FACET_ARCHIVE_NONE);
    assert_int_equal(facet_archive_find(&archive, "tan"), FACET_ARCHIVE_NONE);
    assert_int_equal(facet_archive_find(&archive, ""), FACET_ARCHIVE_NONE);
}

static void expect_corrupt(const struct tiny *broken, size_t size, const char *why)
{
    struct facet_archive archive = {.size = 42};
    struct facet_error error;

    assert_int_equal(facet_archive_read(broken, size, &archive, &error), FACET_CORRUPT);
    assert_non_null(strstr(error.message, why));
    assert_int_equal(archive.size, 42); /* the archive is not written */
}

#define BREAK(change, why)                                                                                             \
    do {                                                                                                               \
        struct tiny broken = tiny;                                                                                     \
        broken.change;                                                                                                 \
        expect_corrupt(&broken, sizeof broken, why);                                                                   \
    } while (0)

static void bytes_that_are_no_archive_are_refused(void **state)
{
    expect_corrupt(&tiny, sizeof tiny.header - 1, "cut off");
    expect_corrupt(&tiny, sizeof tiny - 1, "its header says");
    BREAK(header.magic[0] = 'X', "does not begin");
    BREAK(header.version = 9, "version 9");
    BREAK(header.symbol_count = UINT32_MAX, "cut off");
    BREAK(header.shard_count = 1000, "cut off");
    BREAK(header.name_bytes = 0, "cut off");
    BREAK(header.name_bytes = 7, "names do not end");
    BREAK(symbols[1].name = 8, "outside of the names");
    BREAK(symbols[1].name = 0, "out of order");
    BREAK(symbols[0].shard = 1, "does not exist");
    BREAK(shards[0].size = 9, "outside of the file");
    BREAK(shards[0].size = UINT64_MAX, "outside of the file");
    BREAK(shards[0].offset = 8, "outside of the file");
    BREAK(shards[0].offset = UINT64_MAX, "outside of the file");
    BREAK(shards[0].offset += 4, "outside of the file");
    BREAK(shards[0] = ((struct facet_archive_shard){offsetof(struct tiny, body) + 4, 4}), "not aligned");
}

static void an_archive_that_is_not_aligned_is_refused(void **state)
{
    char bytes[sizeof tiny + FACET_ARCHIVE_ALIGN] __attribute__((aligned(8)));
    struct facet_archive archive;

    memcpy(bytes + 4, &tiny, sizeof tiny);
    assert_int_equal(facet_archive_read(bytes + 4, sizeof tiny, &archive, NULL), FACET_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_archive_is_read),
        cmocka_unit_test(bytes_that_are_no_archive_are_refused),
        cmocka_unit_test(an_archive_that_is_not_aligned_is_refused),
    };

    return cmocka_run_group_tests_name("kernel/builtins_archive", tests, NULL, NULL);
}
