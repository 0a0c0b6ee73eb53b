/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that could not enter a vGPU.
 *
 * Owns: the file in a segment's folder that counts them and says why. Never: needs anything else of the segment, which
 * may itself be broken; nor that the file can be written: a process without access to the folder is not counted.
 */
#ifndef FACET_LIMITER_REFUSED_H
#define FACET_LIMITER_REFUSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FACET_REFUSED_FILE        "refused"
#define FACET_REFUSED_RECORD_SIZE 512u
#define FACET_REFUSED_REASON_SIZE 500u  /* of a record: the text with its end */
#define FACET_REFUSED_RECORDS_MAX 4096u /* no more are counted */

/* Adds a record, or none if the file cannot be written. */
void facet_refused_note(const char *dir, const char *reason);

/*
 * How many there are. `ret_reason` is that of the last one, empty when there is none. False: the file cannot be
 * believed, because something in it is no record.
 */
bool facet_refused_read(const char *dir, uint32_t *ret_count, char ret_reason[FACET_REFUSED_REASON_SIZE]);

#endif
