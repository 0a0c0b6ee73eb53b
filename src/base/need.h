/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the refusal of NULL where a public function needs a value. Never: is used behind the first lock or allocation
 * of a function, because it returns from the function without releasing them.
 */
#ifndef FACET_BASE_NEED_H
#define FACET_BASE_NEED_H

#include <facet/error.h>

#define FACET_NEED(pointer, error)                                                                                     \
    do {                                                                                                               \
        if (!(pointer))                                                                                                \
            return facet_error_argument((error), FACET_INVALID_ARGUMENT, #pointer, "%s: expected a value, not NULL",   \
                                        #pointer);                                                                     \
    } while (0)

#endif
