/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock that decides which process is the daemon of a runtime folder.
 *
 * Owns: <runtime>/facetd.lock. The kernel drops the lock when its holder dies; the file stays and means nothing.
 * Never: waits for the lock.
 */
#ifndef FACETD_LOCK_H
#define FACETD_LOCK_H

#include <stdbool.h>

#include <facet/error.h>

/* Takes the lock; it is held until *ret_fd is closed. FACET_BUSY names the process that has it. */
enum facet_status lock_take(const char *runtime_dir, int *ret_fd, struct facet_error *error);

/* FACET_BAD_STATE: `fd`, which an earlier program of this process passed on, does not hold a lock. */
enum facet_status lock_confirm(int fd, struct facet_error *error);

/* Whether the locked file `fd` is still the one at the lock's path. */
bool lock_is_ours(const char *runtime_dir, int fd);

#endif
