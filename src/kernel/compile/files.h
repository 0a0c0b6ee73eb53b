/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: files for programs and libraries that read only files, and child processes that get them.
 * Never: waits for a child longer than it was allowed to run.
 */
#ifndef FACET_KERNEL_COMPILE_FILES_H
#define FACET_KERNEL_COMPILE_FILES_H

#include <stddef.h>

#include <facet/error.h>

enum { FACET_FOLDER_SIZE = 256 };

struct facet_folder {
    char path[FACET_FOLDER_SIZE];
    int lock; /* held for as long as it is used; -1: not by this process */
};

/*
 * A new folder of our own, in memory where there is such a place. Folders there whose process was killed are removed.
 */
enum facet_status facet_folder_make(struct facet_folder *ret_folder, struct facet_error *error);
/* Removes it with all files in it, from any process. Does nothing where its path is "". */
void facet_folder_remove(const struct facet_folder *folder);
enum facet_status facet_file_write(const char *path, const void *bytes, size_t size, struct facet_error *error);
/* To be freed. */
enum facet_status facet_file_read(const char *path, void **ret_bytes, size_t *ret_size, struct facet_error *error);

/* The result of a child. `output` and `text` (its standard error, shortened) are to be freed. */
struct facet_child {
    void *output;
    size_t bytes;
    char text[256];
    int exit_status; /* or -1 and the signal */
    int signal;
};

/* Runs the program of arguments[0], looked up in PATH, with nothing on standard input. FACET_NOT_FOUND: there is none;
 * FACET_TIMEOUT: it took more than so many seconds of a processor, FACET_OUT_OF_RANGE: it wrote too much; either way it
 * was killed. */
enum facet_status facet_child_run(const char *const *arguments, unsigned seconds, size_t max,
                                  struct facet_child *ret_child, struct facet_error *error);

#endif
