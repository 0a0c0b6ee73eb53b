/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the rules that every form of a request keeps, and the choice of the functions that share a device in the VM.
 * Never: writes the text of a form (render*.c).
 */
#ifndef FACET_PASSTHROUGH_ATTACH_LAYOUT_H
#define FACET_PASSTHROUGH_ATTACH_LAYOUT_H

#include <facet/attach.h>

enum { FACET_SLOT_MEMBERS = 8 };

/* One device in the VM: a root port and up to eight functions, of which the first becomes function 0. */
struct facet_attach_slot {
    uint32_t count;
    uint32_t members[FACET_SLOT_MEMBERS]; /* indices into the request */
    uint8_t numbers[FACET_SLOT_MEMBERS];  /* the members' function numbers in the VM */
    const char *port;                     /* the port that a member names; NULL: no member names one */
    uint64_t prefetchable;                /* bytes of the port's prefetchable window */
    uint64_t other;                       /* bytes of the port's other memory window */
};

struct facet_attach_layout {
    uint32_t count;
    struct facet_attach_slot slots[FACET_ATTACH_FUNCTIONS];
    char ids[FACET_ATTACH_FUNCTIONS][FACET_ATTACH_ID_SIZE]; /* in the order of the request's functions */
};

/* Checks the request, except for limits of one form, and assigns its functions to slots. */
enum facet_status facet_attach_lay_out(const struct facet_attach_request *request,
                                       struct facet_attach_layout *ret_layout, struct facet_error *error);

/* Checks that the versions of QEMU and the kernel, if known, have iommufd when the request uses it. */
enum facet_status facet_attach_check_versions(const struct facet_attach_request *request, uint32_t qemu_version,
                                              struct facet_error *error);

enum facet_status facet_attach_check_function(const struct facet_attach_function *function, struct facet_error *error);

#define FACET_ATTACH_PATH_SIZE 96u

/* The function's path in the host's sysfs. Only the path can name a function of every PCI domain. */
void facet_attach_path(const struct facet_attach_function *function, char ret_path[FACET_ATTACH_PATH_SIZE]);

#endif
