/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a temporary directory that stands for a control group or /proc. Never: leaves it behind. */
#ifndef TEST_MONITOR_TREE_H
#define TEST_MONITOR_TREE_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tree {
    char path[64];
    int fd;
};

static inline void tree_make(struct tree *tree)
{
    snprintf(tree->path, sizeof tree->path, "/tmp/facet-tree-XXXXXX");
    assert_non_null(mkdtemp(tree->path));
    tree->fd = open(tree->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(tree->fd >= 0);
}

static inline int tree_remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    return remove(path);
}

static inline void tree_remove(struct tree *tree)
{
    close(tree->fd);
    assert_int_equal(nftw(tree->path, tree_remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void tree_folder(const struct tree *tree, const char *name)
{
    assert_int_equal(mkdirat(tree->fd, name, 0700), 0);
}

static inline void tree_bytes(const struct tree *tree, const char *name, const void *bytes, size_t size)
{
    int fd = openat(tree->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

static inline void tree_file(const struct tree *tree, const char *name, const char *text)
{
    tree_bytes(tree, name, text, strlen(text));
}

static inline const struct facet_measurement *tree_find_measurement(const struct facet_measurement *measurements,
                                                                    uint32_t count, const char *key)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(measurements[i].meter->key, key) == 0)
            return &measurements[i];
    fail_msg("no measurement of %s, expected one", key);
    return NULL;
}

static inline void tree_expect_value(const struct facet_measurement *measurements, uint32_t count, const char *key,
                                     int64_t value)
{
    const struct facet_measurement *found = tree_find_measurement(measurements, count, key);

    if (found->reason != FACET_MEASURED)
        fail_msg("%s: %s, expected a value", key, facet_unmeasured_name(found->reason));
    assert_int_equal(found->value, value);
}

static inline void tree_expect_reason(const struct facet_measurement *measurements, uint32_t count, const char *key,
                                      enum facet_unmeasured reason)
{
    const struct facet_measurement *found = tree_find_measurement(measurements, count, key);

    if (found->reason != reason)
        fail_msg("%s: %s, expected %s", key, facet_unmeasured_name(found->reason), facet_unmeasured_name(reason));
}

#endif
