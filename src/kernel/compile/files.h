/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: files for programs and libraries that can only read files, and running such programs as children.
 * Never: lets a child use more processor time than its limit.
 */
#ifndef FACET_KERNEL_COMPILE_FILES_H
#define FACET_KERNEL_COMPILE_FILES_H

#include <stddef.h>

#include <facet/error.h>

enum { FACET_FOLDER_SIZE = 256 };

struct facet_folder {
    char path[FACET_FOLDER_SIZE];
    int lock; /* held while the folder is in use; -1: not held by this process */
};

/*
 * Makes a new folder of our own, in memory if possible. Removes folders in the same place whose process was killed.
 */
enum facet_status facet_folder_make(struct facet_folder *ret_folder, struct facet_error *error);
/* Removes the folder with all its files; any process may call this. Does nothing when the path is "". */
void facet_folder_remove(const struct facet_folder *folder);
enum facet_status facet_file_write(const char *path, const void *bytes, size_t size, struct facet_error *error);
/* The caller frees *ret_bytes. */
enum facet_status facet_file_read(const char *path, void **ret_bytes, size_t *ret_size, struct facet_error *error);

/* The result of a child. `output` and `text` (its standard error, shortened) are to be freed. */
struct facet_child {
    void *output;
    size_t bytes;
    char text[256];
    int exit_status; /* -1: it was ended by `signal` */
    int signal;
};

/* Runs the program arguments[0], looked up in PATH, with empty standard input. FACET_NOT_FOUND: there is no such
 * program; FACET_TIMEOUT: it used more than `seconds` of processor time; FACET_OUT_OF_RANGE: it wrote more than `max`
 * bytes. In the last two cases it was killed. */
enum facet_status facet_child_run(const char *const *arguments, unsigned seconds, size_t max,
                                  struct facet_child *ret_child, struct facet_error *error);

#endif
