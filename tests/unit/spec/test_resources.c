/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a resource file reads back exactly, is refused when damaged, and is replaced as a whole; and proofs
 * of its legacy form.
 * Never: needs the shared test vectors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <facet/workload.h>

#include "failing.h"

/* The calls on files that were made so far, and the number of the call that fails; 0: none fails. */
static uint64_t file_calls, file_fail_at;

int __real_openat(int folder, const char *name, int flags, ...);
ssize_t __real_write(int fd, const void *data, size_t bytes);
int __real_fsync(int fd);
int __real_renameat(int from, const char *old, int to, const char *new);
int __wrap_openat(int folder, const char *name, int flags, mode_t mode);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
int __wrap_fsync(int fd);
int __wrap_renameat(int from, const char *old, int to, const char *new);

static bool file_fails(void)
{
    errno = EIO;
    return ++file_calls == file_fail_at;
}

int __wrap_openat(int folder, const char *name, int flags, mode_t mode)
{
    return file_fails() ? -1 : __real_openat(folder, name, flags, mode);
}

ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
    /* Writes a few bytes at a time, so that a call in the middle of the file can fail. */
    return file_fails() ? -1 : __real_write(fd, data, bytes > 40 ? 40 : bytes);
}

int __wrap_fsync(int fd)
{
    return file_fails() ? -1 : __real_fsync(fd);
}

int __wrap_renameat(int from, const char *old, int to, const char *new)
{
    return file_fails() ? -1 : __real_renameat(from, old, to, new);
}

#define RECORD(...) (&(struct facet_resources_record){.size = sizeof(struct facet_resources_record), __VA_ARGS__})

/* Records whose ids and paths hold separators, spaces, line ends, and bytes that are no UTF-8. */
static enum facet_status fill_resources(struct facet_resources *resources, struct facet_error *error)
{
    const struct facet_resources_record records[] = {
        {.size = sizeof records[0], .kind = FACET_RESOURCES_OWNER, .text = {"agent 7\n\xff"}, .places = 3},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_HANDLE, .text = {""}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_SCRATCH, .number = INT64_MAX},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_REQUEST, .text = {"mem"}, .number = 4294971392000000},
        {.size = sizeof records[0],
         .kind = FACET_RESOURCES_GRANT,
         .text = {"cuda.device", "0000:41:00.0"},
         .number = 1000000},
        {.size = sizeof records[0],
         .kind = FACET_RESOURCES_GRANT,
         .text = {"cuda.device", "a,b=c 12:x\nend 3"},
         .number = 1,
         .places = 6},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_ALLOCATION, .text = {"Empty.slot"}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_UNIFIED, .text = {"dummy", "dummy.device"}},
        {.size = sizeof records[0],
         .kind = FACET_RESOURCES_MOUNT,
         .text = {"bind", "/a,b:c", "/x y", "rprivate"},
         .number = FACET_RESOURCES_DELETE},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_DATA, .text = {"X_SHARES", "line\nline"}},
    };
    enum facet_status status = FACET_OK;

    for (size_t i = 0; status == FACET_OK && i < sizeof records / sizeof records[0]; i++)
        status = facet_resources_add(resources, &records[i], error);
    return status;
}

static struct facet_resources *make_resources(void)
{
    struct facet_resources *resources;

    assert_int_equal(facet_resources_create(&resources, NULL), FACET_OK);
    assert_int_equal(fill_resources(resources, NULL), FACET_OK);
    return resources;
}

static void assert_same(const struct facet_resources *left, const struct facet_resources *right)
{
    struct facet_resources_record a = {.size = sizeof a}, b = {.size = sizeof b};

    assert_int_equal(facet_resources_count(left), facet_resources_count(right));
    for (uint32_t i = 0; facet_resources_get(left, i, &a, NULL) == FACET_OK; i++) {
        assert_int_equal(facet_resources_get(right, i, &b, NULL), FACET_OK);
        assert_true(a.kind == b.kind && a.number == b.number && a.places == b.places);
        for (int t = 0; t < 4; t++)
            assert_true(a.text[t] == b.text[t] || strcmp(a.text[t], b.text[t]) == 0);
    }
}

static void test_round_trip_is_exact(void **state)
{
    struct facet_resources *resources = make_resources(), *parsed;
    char *text, *second;
    size_t bytes, second_bytes;
    struct facet_error error = {0};

    assert_int_equal(facet_resources_format(resources, &text, &bytes, &error), FACET_OK);
    if (facet_resources_parse(text, bytes, &parsed, &error) != FACET_OK)
        fail_msg("%s", error.message);
    assert_same(resources, parsed);
    assert_int_equal(facet_resources_format(parsed, &second, &second_bytes, &error), FACET_OK);
    assert_int_equal(bytes, second_bytes);
    assert_memory_equal(text, second, bytes);
    free(text);
    free(second);
    facet_resources_destroy(resources);
    facet_resources_destroy(parsed);
}

/* A file that is cut anywhere, or has one bit flipped anywhere, is refused, and nothing is returned. */
static void test_damaged_file_is_refused(void **state)
{
    struct facet_resources *resources = make_resources(), *parsed = NULL;
    char *text;
    size_t bytes;
    struct facet_error error;

    assert_int_equal(facet_resources_format(resources, &text, &bytes, NULL), FACET_OK);
    for (size_t i = 0; i < bytes; i++) {
        error = (struct facet_error){0};
        assert_int_equal(facet_resources_parse(text, i, &parsed, &error), FACET_CORRUPT);
        assert_non_null(strstr(error.message, "line "));
        for (unsigned bit = 1; bit < 256; bit <<= 1) {
            text[i] = (char)(text[i] ^ (char)bit);
            enum facet_status status = facet_resources_parse(text, bytes, &parsed, &error);
            /* One byte is the version's digit. */
            assert_true(status == FACET_CORRUPT || (status == FACET_UNSUPPORTED && i == strlen("facet-resources ")));
            text[i] = (char)(text[i] ^ (char)bit);
        }
    }
    assert_null(parsed);
    text[strlen("facet-resources ")] = '2';
    assert_int_equal(facet_resources_parse(text, bytes, &parsed, &error), FACET_UNSUPPORTED);
    free(text);
    facet_resources_destroy(resources);
}

static void test_duplicate_and_wrong_records_are_refused(void **state)
{
    struct facet_resources *resources = make_resources();
    uint32_t count = facet_resources_count(resources);

    assert_int_equal(facet_resources_add(resources, RECORD(.kind = FACET_RESOURCES_OWNER, .text = {"x"}), NULL),
                     FACET_ALREADY_EXISTS);
    assert_int_equal(facet_resources_add(resources,
                                         RECORD(.kind = FACET_RESOURCES_GRANT, .text = {"cuda.device", "0000:41:00.0"}),
                                         NULL),
                     FACET_ALREADY_EXISTS);
    assert_int_equal(facet_resources_add(resources, RECORD(.kind = FACET_RESOURCES_REQUEST, .text = {"mem"}), NULL),
                     FACET_ALREADY_EXISTS);
    assert_int_equal(facet_resources_add(resources,
                                         RECORD(.kind = FACET_RESOURCES_GRANT, .text = {"new.slot", "0"}, .number = -1),
                                         NULL),
                     FACET_OUT_OF_RANGE);
    assert_int_equal(facet_resources_add(resources, RECORD(.kind = FACET_RESOURCES_GRANT, .text = {"new.slot"}), NULL),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_resources_add(resources, RECORD(.kind = 99), NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_resources_count(resources), count);
    /* Slot and device are compared separately. These two pairs differ, although both read "a b c" when joined. */
    assert_int_equal(facet_resources_add(resources, RECORD(.kind = FACET_RESOURCES_GRANT, .text = {"a", "b c"}), NULL),
                     FACET_OK);
    assert_int_equal(facet_resources_add(resources, RECORD(.kind = FACET_RESOURCES_GRANT, .text = {"a b", "c"}), NULL),
                     FACET_OK);
    facet_resources_destroy(resources);
}

/* --- files ------------------------------------------------------------------------------------------------------ */

static int open_folder(char path[32])
{
    snprintf(path, 32, "/tmp/facet-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static uint32_t count_files(int folder)
{
    DIR *dir = fdopendir(dup(folder));
    uint32_t count = 0;

    assert_non_null(dir);
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

/* Whichever call on files fails, the folder holds the old file or the new one, complete, and no other file. */
static void test_save_replaces_whole_file(void **state)
{
    struct facet_resources *old, *new = make_resources(), *read;
    char path[32];
    int folder = open_folder(path);
    uint64_t fail_at = 0;
    bool saved = false;

    assert_int_equal(facet_resources_create(&old, NULL), FACET_OK);
    while (!saved) {
        file_fail_at = 0;
        assert_int_equal(facet_resources_save(old, folder, "resources", NULL), FACET_OK);
        struct facet_error error = {0};
        file_calls = 0;
        file_fail_at = ++fail_at;
        saved = facet_resources_save(new, folder, "resources", &error) == FACET_OK;
        file_fail_at = 0;
        assert_int_equal(count_files(folder), 1);
        assert_int_equal(facet_resources_load(folder, "resources", &read, NULL), FACET_OK);
        if (saved)
            assert_same(new, read);
        else
            assert_true(error.status == FACET_IO && (facet_resources_count(read) == 0 ||
                                                     facet_resources_count(read) == facet_resources_count(new)));
        facet_resources_destroy(read);
    }
    assert_true(fail_at > 6); /* saving makes at least six of the calls above */
    unlinkat(folder, "resources", 0);
    assert_int_equal(facet_resources_load(folder, "resources", &read, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_resources_load(folder, "../x", &read, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(mkfifoat(folder, "pipe", 0600), 0);
    assert_int_equal(facet_resources_load(folder, "pipe", &read, NULL), FACET_CORRUPT);
    unlinkat(folder, "pipe", 0);
    assert_int_equal(symlinkat("/etc/passwd", folder, "link"), 0);
    assert_int_not_equal(facet_resources_load(folder, "link", &read, NULL), FACET_OK);
    unlinkat(folder, "link", 0);
    close(folder);
    rmdir(path);
    facet_resources_destroy(old);
    facet_resources_destroy(new);
}

/*
 * A killed process leaves its draft behind, and may have had this process's id (1 in a container). Such drafts do not
 * make saving fail.
 */
static void test_old_drafts_do_not_keep_a_file_from_being_saved(void **state)
{
    struct facet_resources *resources = make_resources();
    struct facet_error error = {0};
    char path[32], draft[64];
    int folder = open_folder(path);

    for (int i = 0; i < 64; i++) {
        snprintf(draft, sizeof draft, ".resources.%ld.%d", (long)getpid(), i);
        close(openat(folder, draft, O_WRONLY | O_CREAT, 0600));
    }
    if (facet_resources_save(resources, folder, "resources", &error) != FACET_OK)
        fail_msg("%s", error.message);
    assert_int_equal(count_files(folder), 65);
    unlinkat(folder, "resources", 0);
    for (int i = 0; i < 64; i++) {
        snprintf(draft, sizeof draft, ".resources.%ld.%d", (long)getpid(), i);
        unlinkat(folder, draft, 0);
    }
    close(folder);
    rmdir(path);
    facet_resources_destroy(resources);
}

/* --- sizes ------------------------------------------------------------------------------------------------------ */

static void test_binary_sizes_round_trip(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } valid[] = {{"0m", 0},      {"1.5g", 1610612736}, {"512", 512},       {"4k", 4096},
                 {"2KiB", 2048}, {"1_024", 1024},      {"3 MiB", 3145728}, {"40G", INT64_C(42949672960)},
                 {"1.0", 1},     {"1.000000", 1},      {"0.5k", 512},      {"7t", INT64_C(7) << 40}};
    static const char *const wrong[] = {
        "inf", "1.5", "1b",   "12bytes", "",     "-1",  "k",
        "1kk", "_1",  "1__0", "1.",      "0.3k", "nan", "99999999999999999999999999999999",
        NULL};
    static const struct {
        int64_t bytes;
        const char *text;
    } formatted[] = {{0, "0"},
                     {1023, "1023"},
                     {1024, "1k"},
                     {1536, "1.5k"},
                     {1610612736, "1.5g"},
                     {1073741825, "1073741825"},
                     {INT64_C(4294971392), "4294971392"},
                     {INT64_C(1) << 40, "1t"},
                     {INT64_MAX, "9223372036854775807"}};
    char text[FACET_AMOUNT_SIZE];
    int64_t bytes;

    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        assert_int_equal(facet_spec_parse_binary(valid[i].text, &bytes, NULL), FACET_OK);
        assert_int_equal(bytes, valid[i].bytes);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_not_equal(facet_spec_parse_binary(wrong[i], &bytes, NULL), FACET_OK);
    for (size_t i = 0; i < sizeof formatted / sizeof formatted[0]; i++) {
        assert_string_equal(facet_spec_format_binary(formatted[i].bytes, text), formatted[i].text);
        assert_int_equal(facet_spec_parse_binary(text, &bytes, NULL), FACET_OK);
        assert_int_equal(bytes, formatted[i].bytes);
    }
}

/* --- the legacy file -------------------------------------------------------------------------------------------- */

static uint32_t type_of(void *context, const char *slot)
{
    return strcmp(slot, "mem") == 0 ? FACET_SLOT_BYTES : FACET_SLOT_COUNT;
}

static void test_legacy_round_trip(void **state)
{
    static const char text[] = "SCRATCH_SIZE=1.5m\nMOUNTS=/a:/b:rw,vol:/c:ro,None:/t:wd\n"
                               "SLOTS={\"cpu\":\"2\",\"cuda.shares\":\"1.50\"}\nUNIFIED_DEVICES=[[\"d\",\"d.x\"]]\n"
                               "CPU_SHARES=0:1,1:1\nMEM_SHARES=root:4294971392\nCUDA.SHARES_SHARES=0000:41:00.0:1.0\n"
                               "ROCM.DEVICE_SHARES=\nCUDA_MEMORY_LIMITS=a:1g\nCID=7=8\n";
    struct facet_resources *resources;
    struct facet_error error = {0};
    char *rewritten;

    if (facet_resources_parse_legacy(text, strlen(text), type_of, NULL, &resources, &error) != FACET_OK)
        fail_msg("%s", error.message);
    if (facet_resources_format_legacy(resources, type_of, NULL, &rewritten, &error) != FACET_OK)
        fail_msg("%s", error.message);
    assert_string_equal(rewritten, text);
    free(rewritten);
    facet_resources_destroy(resources);
}

/* Without a record of scratch space the file says SCRATCH_SIZE=0m, whatever other records there are. */
static void test_legacy_form_without_scratch_has_a_zero(void **state)
{
    struct facet_resources *resources;
    char *text;

    assert_int_equal(facet_resources_create(&resources, NULL), FACET_OK);
    assert_int_equal(facet_resources_add(resources,
                                         RECORD(.kind = FACET_RESOURCES_GRANT, .text = {"cpu", "0"}, .number = 2000000),
                                         NULL),
                     FACET_OK);
    assert_int_equal(facet_resources_format_legacy(resources, type_of, NULL, &text, NULL), FACET_OK);
    assert_string_equal(text, "SCRATCH_SIZE=0m\nMOUNTS=\nSLOTS={}\nUNIFIED_DEVICES=[]\nCPU_SHARES=0:2\n");
    free(text);
    facet_resources_destroy(resources);
}

/* Lines end at the same characters, and lose the same white space, as in the format's own reader. */
static void test_legacy_lines_end_as_in_the_formats_own_reader(void **state)
{
    static const char text[] = "SCRATCH_SIZE=0m\r\nMOUNTS=\rSLOTS={}\n\x1c X=1 \v\n";
    struct facet_resources *resources;
    struct facet_error error = {0};
    char *rewritten;

    if (facet_resources_parse_legacy(text, strlen(text), type_of, NULL, &resources, &error) != FACET_OK)
        fail_msg("%s", error.message);
    assert_int_equal(facet_resources_format_legacy(resources, type_of, NULL, &rewritten, &error), FACET_OK);
    assert_string_equal(rewritten, "SCRATCH_SIZE=0m\nMOUNTS=\nSLOTS={}\nUNIFIED_DEVICES=[]\nX=1\n");
    free(rewritten);
    facet_resources_destroy(resources);
}

static void test_wrong_legacy_file_is_refused(void **state)
{
    static const char *const wrong[] = {
        "SCRATCH_SIZE=0\nSLOTS={}\n",
        "MOUNTS=\nSLOTS={}\n",
        "SCRATCH_SIZE=0\nMOUNTS=\n",
        "SCRATCH_SIZE=x\nMOUNTS=\nSLOTS={}\n",
        "SCRATCH_SIZE=0\nMOUNTS=/a,b:/x:ro\nSLOTS={}\n",
        "SCRATCH_SIZE=0\nMOUNTS=/a:/x:xx\nSLOTS={}\n",
        "SCRATCH_SIZE=0\nMOUNTS=/a:/x:ro:z\nSLOTS={}\n",
        "SCRATCH_SIZE=0\nMOUNTS=\nSLOTS=[]\n",
        "SCRATCH_SIZE=0\nMOUNTS=\nSLOTS={\"a\":1}\n",
        "SCRATCH_SIZE=0\nMOUNTS=\nSLOTS={}\nUNIFIED_DEVICES=[[1]]\n",
        "SCRATCH_SIZE=0\nMOUNTS=\nSLOTS={}\nCPU_SHARES=0:-1\n",
        "SCRATCH_SIZE=0\nMOUNTS=\nSLOTS={}\nCPU_SHARES=0:1k\n",
        "SCRATCH_SIZE=0\nMOUNTS=\nSLOTS={}\nCPU_SHARES=0:1,0:1\n",
        "SCRATCH_SIZE=0\nMOUNTS=\nSLOTS={}\nnonsense\n",
    };
    static const char sized[] = "SCRATCH_SIZE=0\nMOUNTS=\nSLOTS={}\nMEM_SHARES=root:4g\n";
    struct facet_resources *resources = NULL;
    struct facet_error error;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        error = (struct facet_error){0};
        if (facet_resources_parse_legacy(wrong[i], strlen(wrong[i]), type_of, NULL, &resources, &error) !=
            FACET_CORRUPT)
            fail_msg("'%s' gives '%s', expected a refusal as corrupt", wrong[i], error.message);
        assert_null(resources);
    }
    /* Without a function that returns a slot's type, the unit of the amount shows that the amount is in bytes. */
    assert_int_equal(facet_resources_parse_legacy(sized, strlen(sized), NULL, NULL, &resources, &error), FACET_OK);
    facet_resources_destroy(resources);
}

/* A record that the legacy form would change is refused instead. */
static void test_record_that_legacy_changes_is_refused(void **state)
{
    const struct facet_resources_record records[] = {
        {.size = sizeof records[0], .kind = FACET_RESOURCES_GRANT, .text = {"Cuda.device", "0"}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_GRANT, .text = {"cuda.device", "a,b"}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_GRANT, .text = {"mem", "root"}, .number = 1},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_MOUNT, .text = {"bind", "/a,b", "/x", ""}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_MOUNT, .text = {"bind", "/a", "/x", "ro"}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_MOUNT, .text = {"volume", "None", "/x", ""}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_DATA, .text = {"X_SHARES", "1"}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_DATA, .text = {"X", "a\nb"}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_DATA, .text = {"X", "a\rCPU_SHARES=0:9"}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_DATA, .text = {"X", "a\f"}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_DATA, .text = {"X", "a\xe3\x80\x80"}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_DATA, .text = {"X", "\xff"}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_GRANT, .text = {"cuda.device", "a\rb"}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_MOUNT, .text = {"bind", "/a\rCID=b", "/x", ""}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_OWNER, .text = {"a\nb"}},
        {.size = sizeof records[0], .kind = FACET_RESOURCES_REQUEST, .text = {"\xff"}},
    };
    struct facet_error error;
    char *text = NULL;

    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        struct facet_resources *resources;
        assert_int_equal(facet_resources_create(&resources, NULL), FACET_OK);
        assert_int_equal(facet_resources_add(resources, &records[i], NULL), FACET_OK);
        assert_int_equal(facet_resources_format_legacy(resources, NULL, NULL, &text, &error), FACET_UNSUPPORTED);
        facet_resources_destroy(resources);
    }
    assert_null(text);
}

/* --- out of memory ---------------------------------------------------------------------------------------------- */

static bool round_trip_resources(void *context)
{
    struct facet_resources *resources = NULL, *parsed = NULL, *legacy = NULL;
    static const char old[] =
        "SCRATCH_SIZE=0m\nMOUNTS=/a:/b:rw\nSLOTS={\"cpu\":\"2\"}\nUNIFIED_DEVICES=[[\"d\",\"d.x\"]]\n"
        "CPU_SHARES=0:1,1:1\nFACET_OWNER=me\nCID=7\n";
    struct facet_error error = {0};
    char *text = NULL, *rewritten = NULL;
    size_t bytes = 0;
    bool done = facet_resources_create(&resources, &error) == FACET_OK &&
                fill_resources(resources, &error) == FACET_OK &&
                facet_resources_format(resources, &text, &bytes, &error) == FACET_OK &&
                facet_resources_parse(text, bytes, &parsed, &error) == FACET_OK &&
                facet_resources_parse_legacy(old, strlen(old), type_of, NULL, &legacy, &error) == FACET_OK &&
                facet_resources_format_legacy(legacy, type_of, NULL, &rewritten, &error) == FACET_OK;

    if (!done && error.status != FACET_NO_MEMORY)
        fail_msg("got %s (%s), expected no_memory", facet_status_name(error.status), error.message);
    if (done) {
        assert_same(resources, parsed);
        assert_non_null(strstr(rewritten, "FACET_OWNER=me\nCID=7\n"));
    }
    free(text);
    free(rewritten);
    facet_resources_destroy(resources);
    facet_resources_destroy(parsed);
    facet_resources_destroy(legacy);
    return done;
}

static void test_round_trip_survives_failed_allocations(void **state)
{
    assert_true(failing_loop(round_trip_resources, NULL) > 60);
}

/* Adds a grant of a new slot. If memory runs out, neither the grant nor the record of its slot remains. */
static bool add_grant_of_new_slot(void *context)
{
    struct facet_resources *resources = context;
    uint32_t count = facet_resources_count(resources);
    enum facet_status status =
        facet_resources_add(resources, RECORD(.kind = FACET_RESOURCES_GRANT, .text = {"one.slot", "0"}), NULL);

    if (status == FACET_NO_MEMORY)
        assert_int_equal(facet_resources_count(resources), count);
    return status == FACET_OK || status == FACET_ALREADY_EXISTS;
}

static void test_a_grant_without_memory_leaves_nothing(void **state)
{
    struct facet_resources *resources = make_resources();

    assert_true(failing_loop(add_grant_of_new_slot, resources) > 3);
    facet_resources_destroy(resources);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_is_exact),
        cmocka_unit_test(test_damaged_file_is_refused),
        cmocka_unit_test(test_duplicate_and_wrong_records_are_refused),
        cmocka_unit_test(test_save_replaces_whole_file),
        cmocka_unit_test(test_binary_sizes_round_trip),
        cmocka_unit_test(test_legacy_round_trip),
        cmocka_unit_test(test_old_drafts_do_not_keep_a_file_from_being_saved),
        cmocka_unit_test(test_legacy_lines_end_as_in_the_formats_own_reader),
        cmocka_unit_test(test_legacy_form_without_scratch_has_a_zero),
        cmocka_unit_test(test_wrong_legacy_file_is_refused),
        cmocka_unit_test(test_record_that_legacy_changes_is_refused),
        cmocka_unit_test(test_round_trip_survives_failed_allocations),
        cmocka_unit_test(test_a_grant_without_memory_leaves_nothing),
    };

    failing_begin();
    return cmocka_run_group_tests_name("resources", tests, NULL, NULL);
}
