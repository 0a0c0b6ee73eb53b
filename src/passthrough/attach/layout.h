/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the rules for a request in any form, and the choice of the functions that share a device in the VM.
 * Never: writes a form's text.
 */
#ifndef FACET_PASSTHROUGH_ATTACH_LAYOUT_H
#define FACET_PASSTHROUGH_ATTACH_LAYOUT_H

#include <facet/attach.h>

enum { FACET_SLOT_MEMBERS = 8 };

/* One device in the VM: a root port, and up to eight functions, the one that becomes function 0 first. */
struct facet_attach_slot {
    uint32_t count;
    uint32_t members[FACET_SLOT_MEMBERS]; /* indices into the request */
    uint8_t numbers[FACET_SLOT_MEMBERS];  /* of the functions in the VM */
    const char *port;                     /* that a member named; NULL: none did */
    uint64_t prefetchable;                /* windows of the port */
    uint64_t other;
};

struct facet_attach_layout {
    uint32_t count;
    struct facet_attach_slot slots[FACET_ATTACH_FUNCTIONS];
    char ids[FACET_ATTACH_FUNCTIONS][FACET_ATTACH_ID_SIZE]; /* of the request's functions */
};

/* Checks the request, except for the limits of a single form. */
enum facet_status facet_attach_lay_out(const struct facet_attach_request *request,
                                       struct facet_attach_layout *ret_layout, struct facet_error *error);

/* iommufd needs versions of QEMU and the kernel, where they are known. */
enum facet_status facet_attach_check_versions(const struct facet_attach_request *request, uint32_t qemu_version,
                                              struct facet_error *error);

enum facet_status facet_attach_check_function(const struct facet_attach_function *function, struct facet_error *error);

#define FACET_ATTACH_PATH_SIZE 96u

/* The function's path in the host's sysfs: the only spelling that every domain number has. */
void facet_attach_path(const struct facet_attach_function *function, char ret_path[FACET_ATTACH_PATH_SIZE]);

#endif
