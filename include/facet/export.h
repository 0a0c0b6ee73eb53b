/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the visibility mark of public functions. Never: anything else. */
#ifndef FACET_EXPORT_H
#define FACET_EXPORT_H

#define FACET_API                               __attribute__((visibility("default")))
#define FACET_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))

#endif
