/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the table `math` over a vendor's libraries that is the same for each vendor.
 *
 * Owns: opening a library, the checks before an operation, and the refusal of an operation that is not offered.
 * Never: knows more of a library than its name.
 */
#ifndef FACET_KIT_GPU_MATH_H
#define FACET_KIT_GPU_MATH_H

#include <stdbool.h>

#include "context.h"
#include "math_check.h"

/* A library's function, and the offset of its address in a provider's table. Lists end with a name of NULL. */
struct gpu_math_function {
    const char *name;
    size_t at;
};

/*
 * Opens the file that `variable` names, else the first of `places`. NULL: it is absent, or lacks one of `functions`.
 */
void *gpu_math_open(const char *variable, const char *const *places, const struct gpu_math_function *functions,
                    void *ret_table);
/* Looks up more functions of an open library. False: it lacks one, or `library` is NULL. */
bool gpu_math_find(void *library, const struct gpu_math_function *functions, void *ret_table);

/* Checks whether operations are possible in a context; FACET_OK when they are. */
typedef enum facet_status (*gpu_math_refuse_func)(const struct gpu_machine *machine, const struct gpu_context *context,
                                                  struct facet_error *error);

/* Checks the host's operation, as kit_math_check() does, for a context whose device has mathematics. */
enum facet_status gpu_math_check_call(struct gpu_machine *machine, uint64_t context, gpu_math_refuse_func refuse,
                                      const struct facet_math *given, struct facet_math *ret_operation,
                                      struct kit_math_operands *ret_operands, struct facet_error *error);

/* Products of matrices need the first library, other operations the second. */
struct gpu_math_libraries {
    const char *blas, *dnn;
    bool has_blas, has_dnn;
};

/* Refuses an operation: its library is absent, or does not offer the operation for this type. */
enum facet_status gpu_math_not_offered(const struct facet_math *operation, const struct gpu_math_libraries *libraries,
                                       struct facet_error *error);

/* FACET_UNSUPPORTED: `library` uses int, and an operand or another number exceeds it. */
enum facet_status gpu_math_check_sizes(const struct facet_math *operation, const struct kit_math_operands *operands,
                                       const char *library, struct facet_error *error);

#endif
