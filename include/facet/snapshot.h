/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots as files: a worker's state on a device, saved and brought back in this process or another.
 *
 * Owns: the file: the identity of the device, the length, the provider's bytes, and a checksum (XXH3, 128 bits). The
 * file appears whole or not at all. Never: interprets the provider's bytes.
 *
 * Thread rule: any thread; one call at a time per worker.
 */
#ifndef FACET_SNAPSHOT_H
#define FACET_SNAPSHOT_H

#include <facet/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Takes the worker (NULL: all workers) off the device and writes it to `path`: under a temporary name, synced, then
 * renamed. When the file cannot be written the worker is brought back, and the error names the failed step.
 * Errors: those of facet_snapshot_ops.snapshot, FACET_ALREADY_EXISTS (path), FACET_NO_SPACE, FACET_PERMISSION,
 * FACET_IO.
 */
FACET_API enum facet_status facet_snapshot_save(struct facet_session *session, uint32_t device, const char *worker,
                                                const char *path, struct facet_error *error);

/*
 * Brings the content of `path` back on a device of the same provider, name, memory and units. The file stays. The file
 * does not contain the worker's limits, so set them before restoring. FACET_NO_SPACE: the saved state does not fit into
 * them, and nothing was changed.
 * Errors: FACET_CORRUPT (not a snapshot, cut short, checksum; nothing was touched), FACET_UNSUPPORTED (the file is of
 * another provider, device or worker; the message names both), those of facet_snapshot_ops.resume.
 */
FACET_API enum facet_status facet_snapshot_restore(struct facet_session *session, uint32_t device, const char *worker,
                                                   const char *path, struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
