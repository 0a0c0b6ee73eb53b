/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image format of simulated kernels: text, one kernel a line.
 *
 *     # comment
 *     kernel NAME cycles_per_group=N bytes_per_group=N tensor_milli=N effect=none|fill|add|copy
 *     kernel NAME duration_ns=N tensor_milli=N effect=...
 *
 * A kernel costs either cycles and bytes per work-group, from which the model computes a time, or a recorded time, for
 * any grid. An effect really changes memory when the kernel completes. Its arguments are three 64-bit words:
 *     fill  address, count, value    stores value to count words
 *     add   address, count, value    adds value to each of count words
 *     copy  to, from, count          copies count words
 *
 * Owns: the strict parser; every refusal names the line and the member.
 * Never: runs anything.
 */
#ifndef FACET_SIM_KERNEL_H
#define FACET_SIM_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

#define SIM_IMAGE_MAX_BYTES (UINT64_C(1) << 24)
/* The most that any number in an image may be, so that sums and products of the model stay within 128 bits. */
#define SIM_COST_MAX ((UINT64_C(1) << 40) - 1)

/* The value of the device property `conformance_image`; its kernel `fill` has the effect fill. */
#define SIM_CONFORMANCE_KERNEL "fill"
#define SIM_CONFORMANCE_IMAGE  "kernel " SIM_CONFORMANCE_KERNEL " cycles_per_group=1000 effect=fill"

enum sim_effect {
    SIM_EFFECT_NONE = 0,
    SIM_EFFECT_FILL = 1,
    SIM_EFFECT_ADD = 2,
    SIM_EFFECT_COPY = 3,
};

/* Argument bytes of every effect but none. */
#define SIM_EFFECT_ARGUMENT_BYTES 24u

struct sim_kernel {
    char name[64];
    uint64_t cycles_per_group;
    uint64_t bytes_per_group;
    uint64_t duration_ns; /* the recorded time; 0: it is computed from cycles and bytes */
    uint32_t tensor_milli;
    uint32_t line;
    enum sim_effect effect;
};

struct sim_image {
    struct sim_kernel *kernels; /* in order of name */
    size_t count;
};

/* FACET_CORRUPT, naming line and member; FACET_NO_MEMORY. Free with sim_image_clear(). */
enum facet_status sim_image_parse(const void *text, uint64_t bytes, struct sim_image *ret_image,
                                  struct facet_error *error);
void sim_image_clear(struct sim_image *image);

/* NULL when the image has no kernel of that name. */
const struct sim_kernel *sim_image_find(const struct sim_image *image, const char *name);

#endif
