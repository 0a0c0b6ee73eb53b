/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call of the runtime takes of a device besides what it was asked for: its beginning, code, managed variables.
 *
 * Owns: the two ways of asking how much is held, and which of them is used when.
 * Never: charges anything. All of it is called with the devices held (begin.h), from before the runtime's call until
 * what it took is charged: lest two find the same.
 *
 * By process: what the compute driver says this process holds (held.h), less what it was charged. Exact whatever other
 * processes do.
 * By device: what hipMemGetInfo says is in use, less what the vGPU was charged. It sees what other vGPUs take at the
 * same moment, so no call is taken to have cost more than FACET_HIP_MEASURE_MOST. Used where the driver's files do not
 * list this process after the call: in a namespace of process ids, and on drivers without them.
 *
 * Both are differences. A thread of this process that allocates at the same moment shifts them by what it is about to
 * be given: so they are taken until two in a row agree.
 */
#ifndef FACET_HIP_MEASURE_H
#define FACET_HIP_MEASURE_H

#include <stdint.h>

#include "process.h"

#define FACET_HIP_MEASURE_MOST (UINT64_C(512) << 20)

/* What was held and charged to nobody; negative where the runtime has yet to give what is charged. */
struct facet_hip_measure {
    uint32_t device;
    int64_t of_process, of_device;
};

/* Before the runtime's call, and behind it: how many bytes it took. */
void facet_hip_measure_begin(struct facet_hip_measure *measure, uint32_t device);
uint64_t facet_hip_measure_growth(const struct facet_hip_measure *measure);

/*
 * Before a device begins: what this process holds there already and is charged for by nobody was taken by the runtime
 * for its own, but for `besides`, which is charged apart.
 */
void facet_hip_measure_begin_first(struct facet_hip_measure *measure, uint32_t device, uint64_t besides);

/* Around a call that gives back: how many bytes less this process holds. The runtime is not asked. */
void facet_hip_measure_held(struct facet_hip_measure *measure, uint32_t device);
uint64_t facet_hip_measure_shrunk(const struct facet_hip_measure *measure);

#endif
