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
 * or does not allow it to this process (it needs Linux 5.19). FACET_TRANSPLANT_LACKS is the error message for this.
 */
int facet_transplant_open(void);
#define FACET_TRANSPLANT_LACKS                                                                                         \
    "pages cannot move while they are used: this kernel does not let this process watch for writes "                   \
    "(userfaultfd for shared memory, Linux 5.19)"

/*
 * The new place of the pages, and further mappings of the old and new pages (base/page_view.h). With these mappings
 * nothing is mapped for a move, and pages are entered at `at` as they are touched. Without them all pages are entered
 * when the move ends.
 */
struct facet_transplant {
    int file;
    uint64_t offset;
    void *to;         /* a mapping of the new pages, with their memory allocated; NULL: there is none */
    const void *from; /* a mapping of the old pages; NULL: there is none */
};

/*
 * Makes [at, at + bytes) a mapping of the file from the offset on, with the contents that were at `at`. The range is
 * whole pages that were mapped shared; the file's former contents there are overwritten. Other threads may read and
 * write at `at` meanwhile; two calls for the same addresses must not overlap. Returns 0 or an errno; then
 * *ret_failed_step names the step that failed, and nothing has changed.
 */
int facet_transplant(int fault_fd, void *at, uint64_t bytes, const struct facet_transplant *place,
                     const char **ret_failed_step);

#endif
