/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the compiler attributes of public declarations, and the static assertion, in C and C++. Never: declares a
 * function or a type. */
#ifndef FACET_EXPORT_H
#define FACET_EXPORT_H

#define FACET_API                               __attribute__((visibility("default")))
#define FACET_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))

#ifdef __cplusplus
#define FACET_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define FACET_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

#endif
