/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of compiling through the cache, with a compiler that counts how often it is called. */
#include <pthread.h>
#include <sys/wait.h>

#include "caching.h"

static void a_second_compile_is_a_hit(void **state)
{
    struct stat info;

    assert_false(compile_hits(FACET_CACHE_USE, "ok"));
    assert_true(compile_hits(FACET_CACHE_USE, "ok"));
    assert_true(compile_hits(FACET_CACHE_READ_ONLY, "ok"));
    assert_false(compile_hits(FACET_CACHE_USE, "other"));
    assert_int_equal(compile_count(), 2);
    assert_int_equal(stat(folder, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(count_files(".kernel", NULL), 2);
    assert_int_equal(count_files(".lock", NULL) + count_files(".tmp", NULL), 0);
}

static void only_some_cache_modes_read_or_write_the_cache(void **state)
{
    assert_false(compile_hits(FACET_CACHE_READ_ONLY, "ok"));
    assert_false(compile_hits(FACET_CACHE_BYPASS, "ok"));
    assert_int_equal(access(folder, F_OK), -1);
    assert_false(compile_hits(FACET_CACHE_REFRESH, "ok"));
    assert_false(compile_hits(FACET_CACHE_REFRESH, "ok"));
    assert_false(compile_hits(FACET_CACHE_BYPASS, "ok"));
    assert_true(compile_hits(FACET_CACHE_USE, "ok"));
    assert_int_equal(compile_count(), 5);
}

static void warnings_are_shown_again(void **state)
{
    struct facet_compiler *compiler = compiler_of(FACET_CACHE_USE, 0);

    for (unsigned i = 0; i < 2; i++) {
        struct facet_diagnostic diagnostic = {0};
        struct facet_image *image = NULL;

        assert_int_equal(facet_compile(compiler, "warn", 4, NULL, &image, NULL), FACET_OK);
        assert_true(facet_image_diagnostic(image, 0, &diagnostic));
        assert_false(facet_image_diagnostic(image, 1, &diagnostic));
        assert_int_equal(diagnostic.severity, FACET_SEVERITY_WARNING);
        assert_int_equal(diagnostic.line, 2);
        assert_int_equal(diagnostic.column, 5);
        assert_string_equal(diagnostic.file, "kernel.cl");
        assert_string_equal(diagnostic.text, "unused variable 'n'");
        facet_image_destroy(image);
    }
    assert_int_equal(compile_count(), 1);
    facet_compiler_destroy(compiler);
}

static void errors_come_with_all_remarks_and_are_not_kept(void **state)
{
    struct facet_compiler *compiler = compiler_of(FACET_CACHE_USE, 0);

    for (unsigned i = 0; i < 2; i++) {
        struct facet_diagnostic diagnostic = {0};
        struct facet_image *image = NULL;
        struct facet_error error = {0};
        size_t size = 1;

        assert_int_equal(facet_compile(compiler, "error", 5, NULL, &image, &error), FACET_CORRUPT);
        assert_string_equal(error.message, "kernel.cl:3:1: error: expected ';'");
        assert_null(facet_image_bytes(image, &size));
        assert_int_equal(size, 0);
        assert_true(facet_image_diagnostic(image, 1, &diagnostic));
        assert_int_equal(diagnostic.severity, FACET_SEVERITY_ERROR);
        facet_image_destroy(image);
    }
    assert_int_equal(compile_count(), 2);
    assert_int_equal(count_files(".kernel", NULL), 0);
    facet_compiler_destroy(compiler);
}

static void wrong_descriptions_and_processors_that_the_compiler_lacks_are_refused(void **state)
{
    struct facet_compiler *compiler = compiler_of(FACET_CACHE_USE, 0);
    struct facet_compile_options options = {.size = sizeof options, .target = "sm_121"};
    struct facet_image *image = NULL;
    struct facet_error error = {0};

    assert_int_equal(facet_compile(compiler, "lie", 3, NULL, &image, &error), FACET_INTERNAL);
    assert_int_equal(facet_compile(compiler, "ok", 2, &options, &image, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "ptx:sm_121"));
    options.target = "host:nothing";
    assert_int_equal(facet_compile(compiler, "ok", 2, &options, &image, &error), FACET_INVALID_ARGUMENT);
    assert_null(image);
    assert_int_equal(count_files(".kernel", NULL), 0);
    facet_compiler_destroy(compiler);
}

/* --- included files ----------------------------------------------------------------------------------------------- */

static void put_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* Writes a source that asks for two files in the test's folder (see fake_backend.c). */
static void write_source(char *source, size_t size, const char *first, const char *second)
{
    snprintf(source, size, "<%s/%s> <%s/%s>", root, first, root, second);
}

static void a_header_is_known_by_its_contents(void **state)
{
    const struct timespec before[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char source[256], path[128];

    snprintf(path, sizeof path, "%s/a.h", root);
    write_source(source, sizeof source, "missing.h", "a.h");
    put_file(path, "one");
    assert_int_equal(utimensat(AT_FDCWD, path, before, 0), 0);
    assert_false(compile_hits(FACET_CACHE_USE, source));
    assert_true(compile_hits(FACET_CACHE_USE, source));
    assert_true(compile_hits(FACET_CACHE_READ_ONLY, source));
    put_file(path, "two"); /* the same file, of the same length and time */
    assert_int_equal(utimensat(AT_FDCWD, path, before, 0), 0);
    assert_false(compile_hits(FACET_CACHE_READ_ONLY, source));
    assert_false(compile_hits(FACET_CACHE_USE, source));
    assert_true(compile_hits(FACET_CACHE_USE, source));
    assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0); /* a new time is no change */
    assert_true(compile_hits(FACET_CACHE_USE, source));
    put_file(path, "two!");
    assert_false(compile_hits(FACET_CACHE_USE, source));
    assert_int_equal(unlink(path), 0);
    assert_false(compile_hits(FACET_CACHE_USE, source));
    assert_true(compile_hits(FACET_CACHE_USE, source));
    assert_int_equal(count_files(".kernel", NULL), 1);
}

static void a_header_that_appears_is_a_miss(void **state)
{
    char source[256], path[128], folder_path[128];

    write_source(source, sizeof source, "before/a.h", "a.h");
    snprintf(path, sizeof path, "%s/a.h", root);
    snprintf(folder_path, sizeof folder_path, "%s/before", root);
    put_file(path, "one");
    assert_int_equal(mkdir(folder_path, 0700), 0);
    assert_false(compile_hits(FACET_CACHE_USE, source));
    assert_true(compile_hits(FACET_CACHE_USE, source));
    snprintf(path, sizeof path, "%s/before/a.h", root);
    put_file(path, "");
    assert_false(compile_hits(FACET_CACHE_USE, source));
    assert_true(compile_hits(FACET_CACHE_USE, source));
}

static void a_file_that_replaces_a_folder_is_a_miss(void **state)
{
    char source[256], path[128];

    write_source(source, sizeof source, "place", "none");
    snprintf(path, sizeof path, "%s/place", root);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(compile_hits(FACET_CACHE_USE, source));
    assert_true(compile_hits(FACET_CACHE_USE, source));
    assert_int_equal(rmdir(path), 0);
    put_file(path, "");
    assert_false(compile_hits(FACET_CACHE_USE, source));
    assert_true(compile_hits(FACET_CACHE_USE, source));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* a pipe without a writer: opening it must not wait */
    assert_false(compile_hits(FACET_CACHE_USE, source));
    assert_false(compile_hits(FACET_CACHE_USE, source));
}

static void images_that_depend_on_the_time_are_not_kept(void **state)
{
    assert_false(compile_hits(FACET_CACHE_USE, "time"));
    assert_false(compile_hits(FACET_CACHE_USE, "time"));
    assert_int_equal(count_files(".kernel", NULL), 0);
}

/* --- damage ----------------------------------------------------------------------------------------------------- */

/* Changes each seventh byte, and at last cuts the entry in half. */
static void a_damaged_entry_is_a_miss(void **state)
{
    char path[256];
    struct stat info;
    static const char source[] = "warn <none/at/all.h>"; /* so that the entry has a list of files too */

    assert_false(compile_hits(FACET_CACHE_USE, source));
    assert_int_equal(count_files(".kernel", path), 1);
    assert_int_equal(stat(path, &info), 0);
    for (off_t at = 0; at <= info.st_size; at += 7) {
        int fd = open(path, O_RDWR);
        unsigned char byte = 0;

        assert_true(fd >= 0);
        if (at + 7 > info.st_size) {
            assert_int_equal(ftruncate(fd, at / 2), 0);
        } else {
            assert_int_equal(pread(fd, &byte, 1, at), 1);
            byte ^= 0x10;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        close(fd);
        assert_false(compile_hits(FACET_CACHE_USE, source));
        assert_true(compile_hits(FACET_CACHE_USE, source));
    }
}

static void a_folder_in_place_of_an_entry_is_removed(void **state)
{
    char path[256], inside[300];

    assert_false(compile_hits(FACET_CACHE_USE, "ok"));
    assert_int_equal(count_files(".kernel", path), 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(inside, sizeof inside, "%s/theirs", path);
    assert_int_equal(mkdir(inside, 0700), 0);
    assert_false(compile_hits_with(FACET_CACHE_USE, "ok", FACET_IO)); /* the folder is not empty, and so stays */
    assert_false(compile_hits_with(FACET_CACHE_USE, "ok", FACET_IO));
    assert_int_equal(count_files(".tmp", NULL) + count_files(".lock", NULL), 0);
    assert_int_equal(rmdir(inside), 0);
    assert_false(compile_hits(FACET_CACHE_USE, "ok"));
    assert_true(compile_hits(FACET_CACHE_USE, "ok"));
}

static void an_entry_of_another_key_is_a_miss(void **state)
{
    char first[256], second[256], moved[256];

    assert_false(compile_hits(FACET_CACHE_USE, "one"));
    assert_int_equal(count_files(".kernel", first), 1);
    snprintf(moved, sizeof moved, "%s/aside", root);
    assert_int_equal(rename(first, moved), 0);
    assert_false(compile_hits(FACET_CACHE_USE, "two"));
    assert_int_equal(count_files(".kernel", second), 1);
    assert_int_equal(rename(moved, second), 0);
    assert_false(compile_hits(FACET_CACHE_USE, "two"));
}

/* --- sizes ------------------------------------------------------------------------------------------------------ */

static void the_least_recently_used_entries_are_removed(void **state)
{
    struct facet_compiler *compiler = compiler_of(FACET_CACHE_USE, 8000);
    struct facet_cache_usage usage = {0};
    const struct facet_compiler_options options = {.size = sizeof options, .cache_dir = folder, .cache_bytes = 8000};
    struct facet_cache cache;
    struct facet_image *image = NULL;
    char source[32];
    struct facet_compile_statistics statistics = {.size = sizeof statistics};

    assert_int_equal(facet_cache_open(&options, &cache, NULL), FACET_OK);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(source, sizeof source, "source %u", i);
        assert_int_equal(facet_compile(compiler, source, strlen(source), NULL, &image, NULL), FACET_OK);
        facet_image_destroy(image);
        /* The first entry is used again. */
        assert_int_equal(facet_compile(compiler, "source 0", 8, NULL, &image, NULL), FACET_OK);
        facet_image_statistics(image, &statistics);
        assert_int_equal(statistics.cache_hit, 1);
        facet_image_destroy(image);
        assert_true(facet_cache_measure(&cache, &usage));
        assert_true(usage.bytes <= 8000);
    }
    assert_true(usage.entries > 2);
    assert_int_equal(compile_count(), 40);
    facet_cache_close(&cache);
    facet_compiler_destroy(compiler);
}

/* --- threads and processes -------------------------------------------------------------------------------------- */

static void *compile_slowly(void *argument)
{
    return (void *)(uintptr_t)compile_hits(FACET_CACHE_USE, "slow");
}

static void threads_that_want_the_same_image_compile_it_once(void **state)
{
    pthread_t threads[4];
    unsigned misses = 0;

    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compile_slowly, NULL), 0);
    for (size_t i = 0; i < 4; i++) {
        void *hit;
        pthread_join(threads[i], &hit);
        misses += !hit;
    }
    assert_int_equal(compile_count(), 1);
    assert_int_equal(misses, 1);
    assert_int_equal(count_files(".lock", NULL), 0);
}

static void processes_that_want_the_same_image_compile_it_once(void **state)
{
    pid_t children[3];

    for (size_t i = 0; i < 3; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            (void)compile_hits(FACET_CACHE_USE, "slow");
            _exit(0);
        }
    }
    for (size_t i = 0; i < 3; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(compile_count(), 1);
}

static void a_process_that_dies_while_compiling_blocks_no_other(void **state)
{
    char path[256];
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct facet_compiler *compiler = compiler_of(FACET_CACHE_USE, 0);
        struct facet_image *image;

        (void)facet_compile(compiler, "die", 3, NULL, &image, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 9);
    assert_int_equal(count_files(".lock", path), 1); /* the file remains, and is not locked */

    struct facet_compiler_options options = {.size = sizeof options, .cache_dir = folder};
    struct facet_cache_key key = {{0}};
    struct facet_cache cache;
    char digits[3] = "";

    for (size_t i = 0; i < sizeof key.bytes; i++) {
        memcpy(digits, strrchr(path, '/') + 1 + 2 * i, 2);
        key.bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    assert_int_equal(facet_cache_open(&options, &cache, NULL), FACET_OK);
    int lock = facet_cache_lock(&cache, &key, 0);
    assert_true(lock >= 0);
    assert_int_equal(facet_cache_lock(&cache, &key, 1000000), -1);
    facet_cache_unlock(&cache, &key, lock);
    assert_int_equal(count_files(".lock", NULL), 0);
    facet_cache_close(&cache);
}

/* A process that has waited too long for another's compile makes its own; then both write the same entry. */
enum { WRITES_EACH = 200 };

struct writer {
    struct facet_cache cache;
    struct facet_cache_key key;
    struct facet_image *image;
};

static void *keep_often(void *argument)
{
    const struct writer *writer = argument;

    for (int i = 0; i < WRITES_EACH; i++)
        if (facet_cache_keep(&writer->cache, &writer->key, writer->image, NULL) != FACET_OK)
            return argument;
    return NULL;
}

static void concurrent_writers_of_one_key_leave_one_whole_entry(void **state)
{
    const struct facet_compiler_options options = {.size = sizeof options, .cache_dir = folder};
    struct facet_compiler *compiler = compiler_of(FACET_CACHE_BYPASS, 0);
    struct writer writer = {.key = {{1}}};
    pthread_t threads[3];
    void *failed;

    assert_int_equal(facet_cache_open(&options, &writer.cache, NULL), FACET_OK);
    assert_int_equal(facet_compile(compiler, "ok", 2, NULL, &writer.image, NULL), FACET_OK);
    assert_int_equal(facet_cache_keep(&writer.cache, &writer.key, writer.image, NULL), FACET_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_often, &writer), 0);
    for (int i = 0; i < WRITES_EACH; i++) {
        struct facet_image *found = facet_cache_find(&writer.cache, &writer.key);
        assert_non_null(found); /* an incomplete entry would be a miss, and would be removed */
        assert_int_equal(found->size, writer.image->size);
        facet_image_destroy(found);
    }
    for (size_t i = 0; i < 3; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(count_files(".kernel", NULL), 1);
    assert_int_equal(count_files(".tmp", NULL), 0);
    facet_image_destroy(writer.image);
    facet_cache_close(&writer.cache);
    facet_compiler_destroy(compiler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CACHE(a_second_compile_is_a_hit),
        WITH_CACHE(only_some_cache_modes_read_or_write_the_cache),
        WITH_CACHE(warnings_are_shown_again),
        WITH_CACHE(a_header_is_known_by_its_contents),
        WITH_CACHE(a_header_that_appears_is_a_miss),
        WITH_CACHE(a_file_that_replaces_a_folder_is_a_miss),
        WITH_CACHE(images_that_depend_on_the_time_are_not_kept),
        WITH_CACHE(errors_come_with_all_remarks_and_are_not_kept),
        WITH_CACHE(wrong_descriptions_and_processors_that_the_compiler_lacks_are_refused),
        WITH_CACHE(a_damaged_entry_is_a_miss),
        WITH_CACHE(a_folder_in_place_of_an_entry_is_removed),
        WITH_CACHE(an_entry_of_another_key_is_a_miss),
        WITH_CACHE(the_least_recently_used_entries_are_removed),
        WITH_CACHE(threads_that_want_the_same_image_compile_it_once),
        WITH_CACHE(processes_that_want_the_same_image_compile_it_once),
        WITH_CACHE(a_process_that_dies_while_compiling_blocks_no_other),
        WITH_CACHE(concurrent_writers_of_one_key_leave_one_whole_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
