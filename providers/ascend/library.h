/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: finding one of the vendor's libraries at run time.
 * Never: takes a library that is there but broken for one that is absent.
 */
#ifndef FACET_ASCEND_LIBRARY_H
#define FACET_ASCEND_LIBRARY_H

#include <facet/error.h>

/*
 * Opens the file that `variable` names in the environment, else the first of `places` (sonames and paths, NULL at the
 * end) that exists. None of them there: FACET_OK and *ret_library NULL. FACET_IO: it is there and cannot be loaded.
 */
enum facet_status ascend_library_open(const char *variable, const char *const *places, void **ret_library,
                                      struct facet_error *error);

#endif
