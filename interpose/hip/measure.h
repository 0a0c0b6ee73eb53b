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
 * By device: what hipMemGetInfo says is in use, less what the vGPU was charged. Used where the driver's files do not
 * list this process after the call: in a namespace of process ids, and on drivers without them. There processes of the
 * device's vGPUs measure one after another, else two that begin at once would take each other's for their own, or find
 * nothing. What others allocate at the same moment, or begin outside of any vGPU, is seen all the same, so no call is
 * taken to have cost more than FACET_HIP_MEASURE_MOST.
 *
 * Both are differences. A thread of this process that allocates at the same moment shifts them by what it is about to
 * be given: so they are taken until two in a row agree.
 */
#ifndef FACET_HIP_MEASURE_H
#define FACET_HIP_MEASURE_H

#include <stdint.h>

#include "process.h"

#define FACET_HIP_MEASURE_MOST (UINT64_C(512) << 20)

/* How long others are waited for that measure the same device as a whole: each takes as long as a device to begin. */
#define FACET_HIP_MEASURE_WAIT_NS UINT64_C(5000000000)

/* What was held and charged to nobody; negative where the runtime has yet to give what is charged. */
struct facet_hip_measure {
    uint32_t device;
    int64_t of_process, of_device;
    int held; /* the device, among the processes of its vGPUs; -1: it is not */
};

/*
 * Before the runtime's call, and behind it: how many bytes it took. Each that is begun is ended, once what it took is
 * charged, or given up.
 */
void facet_hip_measure_begin(struct facet_hip_measure *measure, uint32_t device);
uint64_t facet_hip_measure_growth(const struct facet_hip_measure *measure);
void facet_hip_measure_end(const struct facet_hip_measure *measure);

/*
 * Before a device begins: what this process holds there already and is charged for by nobody was taken by the runtime
 * for its own, but for `besides`, which is charged apart.
 */
void facet_hip_measure_begin_first(struct facet_hip_measure *measure, uint32_t device, uint64_t besides);

/* Around a call that gives back: how many bytes less this process holds. The runtime is not asked. */
void facet_hip_measure_held(struct facet_hip_measure *measure, uint32_t device);
uint64_t facet_hip_measure_shrunk(const struct facet_hip_measure *measure);

#endif
