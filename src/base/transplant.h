/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges pages of a file under addresses in use: the pages are protected from writes (userfaultfd), copied, and
 * replaced by the new ones. Writers wait in the kernel meanwhile, and no thread sees an intermediate state.
 *
 * Owns: that exchange. Never: installs a signal handler, starts a thread, or knows the owner of the addresses.
 */
#ifndef FACET_BASE_TRANSPLANT_H
#define FACET_BASE_TRANSPLANT_H

#include <stdint.h>

/*
 * Opens the descriptor that catches writes, to be closed by the caller. -1: this kernel cannot protect shared memory,
 * or does not allow it to this process (Linux 5.19 can; FACET_TRANSPLANT_LACKS is for the error).
 */
int facet_transplant_open(void);
#define FACET_TRANSPLANT_LACKS                                                                                         \
    "pages cannot move while they are used: this kernel lets this process not watch over writes "                      \
    "(userfaultfd for shared memory, Linux 5.19)"

/*
 * The pages' new place, and their other mappings (base/page_view.h): with those nothing is mapped for a move, and pages
 * are entered at `at` as they are touched; without, all are entered when the move ends.
 */
struct facet_transplant {
    int file;
    uint64_t offset;
    void *to;         /* the new pages, with their memory; NULL: nowhere */
    const void *from; /* the old ones; NULL: nowhere */
};

/*
 * Makes [at, at + bytes) a mapping of the file from the offset on, with the contents that were at `at`. The range is
 * whole pages that were mapped shared; the file's former contents there are overwritten. Other threads may read and
 * write at `at` meanwhile; two calls for the same addresses must not overlap. On failure it returns errno,
 * *ret_failed_step names the step that failed, and all is as before.
 */
int facet_transplant(int fault_fd, void *at, uint64_t bytes, const struct facet_transplant *place,
                     const char **ret_failed_step);

#endif
