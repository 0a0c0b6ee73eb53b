/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake of the kernel's VFIO and iommufd, behind the table of calls that the client takes.
 *
 * Owns: a folder that looks like a machine with a few functions, the mappings, and the number of calls.
 * Never: is more lenient than the kernel. A call that the kernel refuses is refused here with the same errno.
 */
#ifndef FACET_TEST_FAKE_VFIO_H
#define FACET_TEST_FAKE_VFIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "passthrough/vfio/client.h"

#define FAKE_GPU      "0000:01:00.0" /* of group 7 */
#define FAKE_SOUND    "0000:01:00.1" /* of group 7 */
#define FAKE_OTHER    "0000:02:00.0" /* of group 8 */
#define FAKE_NO_IOMMU "0000:03:00.0" /* in no group */

#define FAKE_BAR_BYTES (UINT64_C(1) << 20)
#define FAKE_REGION(i) ((uint64_t)(i) << 24) /* the offset of region i in a device's file */

enum fake_role {
    FAKE_NONE,
    FAKE_CONTAINER,
    FAKE_GROUP,
    FAKE_IOMMUFD,
    FAKE_DEVICE,
};

struct fake_file {
    enum fake_role role;
    int group;
    bool in_space;
};

struct fake_mapping {
    uint64_t iova, bytes;
};

#define FAKE_FILES    256
#define FAKE_MAPPINGS 8

struct fake_vfio {
    char root[64];
    struct facet_vfio_system system;
    uint64_t calls, fail_at; /* fail_at: the call, counted from 1, that fails with fail_errno; 0: none */
    int fail_errno;
    struct fake_file files[FAKE_FILES];
    struct fake_mapping mappings[FAKE_MAPPINGS];
    uint32_t mapping_count, mapping_max;
    bool has_iommu;
    /* set by a test */
    int api_version, open_errno, map_errno, bind_errno; /* open_errno: of groups and of functions */
    bool lacks_type1, not_viable, in_other_space, no_descriptor, cannot_reset, circular, too_many_regions, not_pci;
    uint32_t hot_reset_group; /* a further group that a reset of the bus hits; 0: none */
    /* recorded for the test */
    int eventfd, eventfd_kind;
    uint32_t resets, bus_resets, unmasked;
};

void fake_vfio_open(struct fake_vfio *fake);
void fake_vfio_close(struct fake_vfio *fake); /* fails the test when a descriptor or a mapping is left */

void fake_vfio_restart(struct fake_vfio *fake); /* clears settings and records; the folder stays */

void fake_vfio_driver(struct fake_vfio *fake, const char *address, const char *driver); /* NULL: none */
void fake_vfio_write(struct fake_vfio *fake, const char *path, const char *text);

#endif
