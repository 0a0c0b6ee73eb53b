/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What drivers of other processes publish of themselves: one file for each, in the runtime folder.
 *
 *     <runtime>/drivers/PID-N.lock    locked for as long as the driver is open
 *     <runtime>/drivers/PID-N.json    what it has, replaced as a whole
 *
 * Owns: the folder, the files' form, and taking away what a process left that was killed.
 * Never: believes what it reads: a field that is missing, of another type, negative or more than can be is not known,
 * where a validity bit can say so; where none can, nothing of that driver is taken, and it is said why.
 */
#ifndef FACET_VGPU_PUBLISHED_H
#define FACET_VGPU_PUBLISHED_H

#include <facet/vgpu.h>

struct facet_published {
    int64_t pid;
    uint32_t number; /* of the process's drivers: from its file's name, as is `pid` when it was read from one */
    char program[64];
    char refused[192]; /* why what it publishes was not taken: all below is 0 then; "": it was */
    uint32_t devices, vgpus;
    struct facet_driver_device *device;
    struct facet_vgpu_info *vgpu;
};

/* Of all drivers that are open and publish; in no order. The caller frees them with facet_published_free(). A folder
 * that is not there is an empty list. */
enum facet_status facet_published_read(struct facet_published **ret_drivers, uint32_t *ret_count,
                                       struct facet_error *error);
void facet_published_free(struct facet_published *drivers, uint32_t count);

/* One from its text; what it owns is freed by facet_published_clear(). FACET_CORRUPT names the member. */
enum facet_status facet_published_parse(const char *text, size_t length, struct facet_published *ret_driver,
                                        struct facet_error *error);
void facet_published_clear(struct facet_published *driver);

/* The text of one; the caller frees it. NULL: no memory. */
char *facet_published_text(const struct facet_published *driver);

/* <runtime>/drivers */
enum facet_status facet_published_folder(char *ret_path, size_t size, struct facet_error *error);

#endif
