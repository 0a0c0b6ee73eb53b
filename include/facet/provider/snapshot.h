/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provider ABI, table `snapshot`: saving the state of workers on a device, and bringing it back.
 *
 * Owns: saving and restoring, of a worker or of whole processes. The host adds the identity and the checksum to the
 * provider's bytes.
 * Never: leaves a worker half saved or half restored: either operation succeeds whole or changes nothing.
 */
#ifndef FACET_PROVIDER_SNAPSHOT_H
#define FACET_PROVIDER_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_provider_instance;

struct facet_snapshot_ops {
    uint64_t size; /* of this table, as the provider was built */

    /*
     * Stops the worker's streams between two kernels, writes the worker's device memory, address map and queued work to
     * `fd`, and takes the worker off the device. `worker` NULL: every worker of the device. With fd -1 the state is
     * kept in host memory of this instance, for `resume` with -1. Writing begins at the file offset of `fd`.
     * FACET_NOT_FOUND when the worker has nothing on the device; FACET_BAD_STATE when the worker is off the device
     * already. While it is off, any use of its contexts is FACET_BAD_STATE, too (memory.h).
     */
    enum facet_status (*snapshot)(struct facet_provider_instance *instance, uint32_t device, const char *worker, int fd,
                                  struct facet_error *error);

    /*
     * Brings the worker back: same addresses, same contents, same contexts, streams and modules by their numbers;
     * queued work goes on. The instance may be another one, in another process; then the numbers must be free there.
     * Reading begins at the file offset of `fd`. FACET_NOT_FOUND with -1 when nothing of the worker is kept here.
     * FACET_CORRUPT when the bytes are not a snapshot, FACET_UNSUPPORTED when they are of a device of another model or
     * size, FACET_NO_SPACE when the worker does not fit, FACET_BUSY when numbers or addresses are taken.
     */
    enum facet_status (*resume)(struct facet_provider_instance *instance, uint32_t device, const char *worker, int fd,
                                struct facet_error *error);

    /* Snapshot and resume whole processes, by pid: everything that they have on any device, stored where the vendor's
     * driver stores it. These two operations belong to no device, so a provider may have them although no device
     * promises FACET_CAN_SNAPSHOT. FACET_NOT_FOUND names the first pid that is dead or has nothing on a device. */
    enum facet_status (*snapshot_processes)(struct facet_provider_instance *instance, const int32_t *pids,
                                            uint32_t count, struct facet_error *error);
    enum facet_status (*resume_processes)(struct facet_provider_instance *instance, const int32_t *pids, uint32_t count,
                                          struct facet_error *error);
};
FACET_STATIC_ASSERT(sizeof(struct facet_snapshot_ops) == 40, "ABI: facet_snapshot_ops");

#ifdef __cplusplus
}
#endif
#endif
