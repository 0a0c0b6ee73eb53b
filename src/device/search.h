/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: turning a provider path into the list of provider files.
 * Never: opens a provider file.
 */
#ifndef FACET_DEVICE_SEARCH_H
#define FACET_DEVICE_SEARCH_H

#include "device/table.h"

/* More provider files than this is taken for a wrong folder. */
#define FACET_PROVIDER_FILES 64u

/*
 * Writes one record per file, with only `path` filled in; the caller frees `ret_records`. `paths` as in
 * facet_device_table_open(). A file that does not exist is listed too: loading it will say so.
 */
enum facet_status facet_provider_search(const char *paths, struct facet_provider_record **ret_records,
                                        uint32_t *ret_count, struct facet_error *error);

#endif
