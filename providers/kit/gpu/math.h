/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table `math` over a vendor's libraries, as far as it is the same for each.
 *
 * Owns: opening a library, what is checked before an operation is asked of it, and how one that is not offered is
 * refused.
 * Never: knows a library but by its name.
 */
#ifndef FACET_KIT_GPU_MATH_H
#define FACET_KIT_GPU_MATH_H

#include <stdbool.h>

#include "context.h"
#include "math_check.h"

/* A library's function, and where its address goes in a provider's table. Lists end with a name of NULL. */
struct gpu_math_function {
    const char *name;
    size_t at;
};

/* Opens what `variable` names, else the first of `places`. NULL: it is not there, or lacks one of its functions. */
void *gpu_math_open(const char *variable, const char *const *places, const struct gpu_math_function *functions,
                    void *ret_table);
/* Some more of one that is open. False: it lacks one, or `library` is NULL. */
bool gpu_math_find(void *library, const struct gpu_math_function *functions, void *ret_table);

/* Why an operation cannot be had in a context: FACET_OK when it can. */
typedef enum facet_status (*gpu_math_refuse_func)(const struct gpu_machine *machine, const struct gpu_context *context,
                                                  struct facet_error *error);

/* Takes what the host gave, as kit_math_check() does, for a context whose device has mathematics. */
enum facet_status gpu_math_take(struct gpu_machine *machine, uint64_t context, gpu_math_refuse_func refuse,
                                const struct facet_math *given, struct facet_math *ret_operation,
                                struct kit_math_operands *ret_operands, struct facet_error *error);

/* Products of matrices need the first library, all but products the second. */
struct gpu_math_libraries {
    const char *blas, *dnn;
    bool has_blas, has_dnn;
};

/* Refuses an operation: a library is not there, or they have no such operation of its type. */
enum facet_status gpu_math_not_offered(const struct facet_math *operation, const struct gpu_math_libraries *libraries,
                                       struct facet_error *error);

/* FACET_UNSUPPORTED: `library` counts in int, which an operand or another number is above. */
enum facet_status gpu_math_check_sizes(const struct facet_math *operation, const struct kit_math_operands *operands,
                                       const char *library, struct facet_error *error);

#endif
