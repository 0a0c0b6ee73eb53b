/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that could not enter a vGPU.
 *
 * Owns: the file in a segment's folder with a record for each such process, which says why it could not enter.
 * Never: reads another file of the segment, because it may be damaged; reports an error when a record cannot be
 * written: that process is not counted.
 */
#ifndef FACET_LIMITER_REFUSED_H
#define FACET_LIMITER_REFUSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

#define FACET_REFUSED_FILE        "refused"
#define FACET_REFUSED_RECORD_SIZE 512u
#define FACET_REFUSED_REASON_SIZE 500u  /* of a record's text, with its terminating 0 */
#define FACET_REFUSED_RECORDS_MAX 4096u /* further records are not counted */

/* Makes the file, without records, unless there is one: a container whose view of the folder is read-only writes to the
 * file, and cannot make it. The caller closes `*ret_fd`, which is -1 where the file is not one of ours. */
enum facet_status facet_refused_make(int dir_fd, int *ret_fd, struct facet_error *error);

/* Cuts off what lies behind the last possible record. */
void facet_refused_bound(int fd);

/* Adds a record; does nothing if the file cannot be written. */
void facet_refused_note(const char *dir, const char *reason);

/*
 * Counts the records. `ret_reason` is the reason in the last record, and empty when there is none. False: the file
 * cannot be believed, because it holds something other than records.
 */
bool facet_refused_read(const char *dir, uint32_t *ret_count, char ret_reason[FACET_REFUSED_REASON_SIZE]);

#endif
