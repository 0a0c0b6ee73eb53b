/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's own count of the memory that a vGPU's processes hold, beside the limiter's charges: the difference shows
 * a process that bypasses an interposer.
 *
 * Owns: the comparison, made once a second while vGPUs have processes; the time since which the driver counts more.
 * Never: refuses or ends anything.
 *
 * Thread rule: audit_look() from one thread, audit_of() from any.
 */
#ifndef FACETD_AUDIT_H
#define FACETD_AUDIT_H

#include "endpoint.h"

struct audit; /* opaque */

enum facet_status audit_open(struct audit **ret_audit, struct facet_error *error);
void audit_close(struct audit *audit); /* NULL is allowed */

/*
 * Compares the counts if the last comparison is at least a second old. Starts reading the providers when a program runs
 * on an NVIDIA GPU.
 */
void audit_look(struct audit *audit, const struct daemon *daemon, uint64_t now_ns);

struct audit_result {
    uint64_t driver_bytes; /* of all the vGPU's processes that the driver lists */
    bool excess;           /* for ten seconds the driver has counted more than the charge, by a tenth and by 64 MiB */
};

/* The counts of the last comparison. False: the driver listed no process of the vGPU, or no memory of one. */
bool audit_of(struct audit *audit, const char *vgpu_id, struct audit_result *ret_result);

#endif
