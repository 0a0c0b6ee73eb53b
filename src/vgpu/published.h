/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that each driver with `publish` set writes for other processes, in the runtime folder.
 *
 *     <runtime>/drivers/PID-N.lock    locked for as long as the driver is open
 *     <runtime>/drivers/PID-N.json    the driver's devices and vGPUs; replaced as a whole
 *
 * Owns: the folder, the format of the files, and removal of the files that a killed process left.
 * Never: trusts a file. A field that is missing, of another type, negative or out of range counts as unknown if it has
 * a validity bit. If it has no validity bit, or if numbers contradict each other, the whole driver is refused with the
 * reason.
 */
#ifndef FACET_VGPU_PUBLISHED_H
#define FACET_VGPU_PUBLISHED_H

#include <facet/vgpu.h>

struct facet_published {
    int64_t pid;
    uint32_t number; /* among the process's drivers; a reader takes this and `pid` from the file's name */
    char program[64];
    char refusal[192]; /* why its file was refused, and the members below are 0; "": it was accepted */
    uint32_t devices, vgpus;
    struct facet_driver_device *device;
    struct facet_vgpu_info *vgpu;
};

/*
 * Reads the files of all open drivers that publish, in no order. The caller frees them with facet_published_free(). A
 * missing folder is an empty list.
 */
enum facet_status facet_published_read(struct facet_published **ret_drivers, uint32_t *ret_count,
                                       struct facet_error *error);
void facet_published_free(struct facet_published *drivers, uint32_t count);

/* Parses a file's text. The caller frees its arrays with facet_published_clear(). FACET_CORRUPT names the member. */
enum facet_status facet_published_parse(const char *text, size_t length, struct facet_published *ret_driver,
                                        struct facet_error *error);
void facet_published_clear(struct facet_published *driver);

/* Writes a driver as text, which the caller frees. NULL: no memory. */
char *facet_published_text(const struct facet_published *driver);

/* Writes the path <runtime>/drivers. */
enum facet_status facet_published_folder(char *ret_path, size_t size, struct facet_error *error);

#endif
