/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock that decides which process is the daemon of a runtime folder.
 *
 * Owns: <runtime>/facetd.lock. The kernel drops the lock when its holder dies; the file stays and means nothing.
 * Never: waits.
 */
#ifndef FACETD_LOCK_H
#define FACETD_LOCK_H

#include <facet/error.h>

/* Takes the lock; it is held until *ret_fd is closed. FACET_BUSY names the process that has it. */
enum facet_status lock_take(const char *runtime_dir, int *ret_fd, struct facet_error *error);

#endif
