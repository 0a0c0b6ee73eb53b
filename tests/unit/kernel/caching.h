/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a folder for a cache, and compiles through it with a fake compiler that counts how often it is called.
 * Never: asserts the contents of a cache.
 */
#ifndef FACET_TESTS_CACHING_H
#define FACET_TESTS_CACHING_H

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernel/cache.h"

#define WITH_CACHE(test) cmocka_unit_test_setup_teardown(test, make_cache_folder, remove_cache_folder)

static char root[64], folder[96], counter[96];

static inline int make_cache_folder(void **state)
{
    strcpy(root, "/tmp/facet-test-cache-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/cache", root);
    snprintf(counter, sizeof counter, "%s/compiles", root);
    setenv("FACET_TEST_COMPILES", counter, 1);
    return 0;
}

static inline int remove_cache_folder(void **state)
{
    char command[160];

    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static inline long compile_count(void)
{
    struct stat info;

    return stat(counter, &info) == 0 ? (long)info.st_size : 0;
}

static inline struct facet_compiler *compiler_of(uint32_t mode, uint64_t bytes)
{
    const struct facet_compiler_options options = {
        .size = sizeof options, .cache_mode = mode, .cache_dir = folder, .cache_bytes = bytes};
    struct facet_compiler *compiler = NULL;

    assert_int_equal(facet_compiler_create(&options, &compiler, NULL), FACET_OK);
    return compiler;
}

/* Compiles with a new compiler, and returns whether the image came from the cache. `expected` is the status that the
 * cache must report. */
static inline bool compile_hits_with(uint32_t mode, const char *source, enum facet_status expected)
{
    struct facet_compile_statistics statistics = {.size = sizeof statistics};
    struct facet_compiler *compiler = compiler_of(mode, 0);
    struct facet_image *image = NULL;

    assert_int_equal(facet_compile(compiler, source, strlen(source), NULL, &image, NULL), FACET_OK);
    facet_image_statistics(image, &statistics);
    assert_non_null(facet_image_find(image, "saxpy"));
    facet_image_destroy(image);
    facet_compiler_destroy(compiler);
    assert_int_equal(statistics.cache_status, expected);
    return statistics.cache_hit;
}

static inline bool compile_hits(uint32_t mode, const char *source)
{
    return compile_hits_with(mode, source, FACET_OK);
}

/* Counts the cache's files with that ending, and gives the path of the last file found. */
static inline unsigned count_files(const char *ending, char path[256])
{
    DIR *list = opendir(folder);
    const struct dirent *file;
    unsigned count = 0;

    while (list && (file = readdir(list))) {
        size_t length = strlen(file->d_name), tail = strlen(ending);
        if (length < tail || strcmp(file->d_name + length - tail, ending) != 0)
            continue;
        if (path)
            snprintf(path, 256, "%s/%.128s", folder, file->d_name);
        count++;
    }
    if (list)
        closedir(list);
    return count;
}

#endif
