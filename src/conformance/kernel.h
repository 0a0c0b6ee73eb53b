/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test kernel that a provider may publish (docs/providers.md): the property conformance_kernel names it,
 * conformance_image is its image. It takes three 64-bit arguments, an address, a count and a value, and stores the
 * value to that many 64-bit words.
 *
 * Owns: loading it and launching it. Never: makes up an image.
 */
#ifndef FACET_CONFORMANCE_KERNEL_H
#define FACET_CONFORMANCE_KERNEL_H

#include "conformance/check.h"

struct facet_check_kernel {
    char name[64];
    uint64_t context, module, stream;
};

/* False when none is published, or after a failed assertion. Loads it and creates a stream. */
bool facet_check_kernel_open(struct facet_check *check, uint64_t context, struct facet_check_kernel *ret_kernel);
bool facet_check_kernel_published(struct facet_check *check);
enum facet_status facet_check_kernel_launch(struct facet_check *check, const struct facet_check_kernel *kernel,
                                            uint64_t address, uint64_t words, uint64_t value);

/* How long to wait for a kernel of a few thousand words. */
#define FACET_CHECK_KERNEL_NS UINT64_C(5000000000)

#endif
