/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of a file are exchanged under addresses that others go on using: what is there is protected from writes
 * (userfaultfd), copied, and the new pages are put in its place, so that writers wait in the kernel until they are
 * there, and nobody sees anything between.
 *
 * Owns: that exchange. Never: installs a signal handler, starts a thread, or knows whose the addresses are.
 */
#ifndef FACET_BASE_TRANSPLANT_H
#define FACET_BASE_TRANSPLANT_H

#include <stdint.h>

/* What watches over writes, to be closed by the caller. -1: this kernel cannot protect shared memory, or lets this
 * process not (Linux 5.19 can; FACET_TRANSPLANT_LACKS is for the error). */
int facet_transplant_open(void);
#define FACET_TRANSPLANT_LACKS                                                                                         \
    "pages cannot move while they are used: this kernel lets this process not watch over writes "                      \
    "(userfaultfd for shared memory, Linux 5.19)"

/* Where pages move to, and where else they can be seen (base/page_view.h): then nothing is to be mapped for a move, and
 * they are entered at `at` as they are touched; else they are when it ends. */
struct facet_transplant {
    int file;
    uint64_t offset;
    void *to;         /* the new pages, with their memory; NULL: nowhere */
    const void *from; /* the old ones; NULL: nowhere */
};

/*
 * From now on [at, at + bytes) is the file from the offset on, with the contents that were at `at`. All of it is whole
 * pages that were mapped shared; what the file has there is overwritten. Others may read and write at `at` meanwhile;
 * not two calls for the same addresses at a time. 0, or errno, and *ret_what is what could not be done: all is as
 * before.
 */
int facet_transplant(int faults, void *at, uint64_t bytes, const struct facet_transplant *place, const char **ret_what);

#endif
