/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that drivers of other processes publish: one for each, in the runtime folder.
 *
 *     <runtime>/drivers/PID-N.lock    locked for as long as the driver is open
 *     <runtime>/drivers/PID-N.json    its devices and vGPUs, replaced as a whole
 *
 * Owns: the folder, the format of the files, and removal of the files that a killed process left.
 * Never: trusts a file: a field that is missing, of another type, negative or out of range counts as unknown, where a
 * validity bit can say so; where none can, the whole driver is refused with the reason. So is one whose numbers
 * contradict each other: there is no telling which of them is wrong.
 */
#ifndef FACET_VGPU_PUBLISHED_H
#define FACET_VGPU_PUBLISHED_H

#include <facet/vgpu.h>

struct facet_published {
    int64_t pid;
    uint32_t number; /* of the process's drivers: from its file's name, as is `pid` when it was read from one */
    char program[64];
    char refusal[192]; /* why its file was refused: all below is 0 then; "": it was accepted */
    uint32_t devices, vgpus;
    struct facet_driver_device *device;
    struct facet_vgpu_info *vgpu;
};

/*
 * Of all drivers that are open and publish; in no order. The caller frees them with facet_published_free(). A missing
 * folder is an empty list.
 */
enum facet_status facet_published_read(struct facet_published **ret_drivers, uint32_t *ret_count,
                                       struct facet_error *error);
void facet_published_free(struct facet_published *drivers, uint32_t count);

/* One from its text; free its parts with facet_published_clear(). FACET_CORRUPT names the member. */
enum facet_status facet_published_parse(const char *text, size_t length, struct facet_published *ret_driver,
                                        struct facet_error *error);
void facet_published_clear(struct facet_published *driver);

/* The text of one; the caller frees it. NULL: no memory. */
char *facet_published_text(const struct facet_published *driver);

/* <runtime>/drivers */
enum facet_status facet_published_folder(char *ret_path, size_t size, struct facet_error *error);

#endif
