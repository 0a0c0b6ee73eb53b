/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: queries about a loaded kernel, for the rooms above. Never: launches a kernel; facet/kernel.h has that call. */
#ifndef FACET_KERNEL_LAUNCH_H
#define FACET_KERNEL_LAUNCH_H

#include <stdbool.h>

#include <facet/kernel.h>

/* Whether the kernel was loaded for this context. */
bool facet_kernel_is_of(const struct facet_kernel *kernel, const struct facet_session *session, uint64_t context);
const char *facet_kernel_name(const struct facet_kernel *kernel);

/*
 * Calls `judge` for each device address among the arguments, until `judge` refuses an address. Arguments that are unset
 * or 0 are skipped.
 */
typedef enum facet_status (*facet_kernel_judge_func)(void *data, const char *argument, uint64_t address,
                                                     struct facet_error *error);
enum facet_status facet_kernel_judge_memory(const struct facet_kernel *kernel, facet_kernel_judge_func judge,
                                            void *data, struct facet_error *error);

#endif
