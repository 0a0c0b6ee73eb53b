/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring the device memory that a runtime call takes as a side effect: initializing a device, code, managed
 * variables.
 *
 * Owns: the two ways of reading how much is held, and the choice between them.
 * Never: charges anything. Every function is called with the devices locked (initialize.h), from before the runtime's
 * call until the growth is charged, so that two threads do not count the same growth.
 *
 * By process: the compute driver's figure for this process (process_bytes.h), less its charges. It is exact whatever
 * other processes do.
 * By device: the amount in use by hipMemGetInfo, less the vGPU's charges. This way is used when the driver's files do
 * not list this process after the call: in a pid namespace, and on drivers without such files. Processes of the
 * device's vGPUs then measure one after another: two at once would count each other's growth, or none. Allocations of
 * other processes, and initializations outside of any vGPU, still disturb a reading, so a call counts as at most
 * FACET_HIP_MEASURE_MOST.
 *
 * Both are differences. A thread of this process that allocates at the same moment shifts them, so readings are
 * repeated until two in a row agree.
 */
#ifndef FACET_HIP_MEASURE_H
#define FACET_HIP_MEASURE_H

#include <stdint.h>

#include "process.h"

#define FACET_HIP_MEASURE_MOST (UINT64_C(512) << 20)

/*
 * The longest wait for other processes that measure the same device; each takes as long as a device's
 * initialization.
 */
#define FACET_HIP_MEASURE_WAIT_NS UINT64_C(5000000000)

/*
 * The readings before a call, in bytes: held memory that is charged to no tenant. They are negative if the runtime has
 * not yet allocated charged memory. In a measurement of a free, INT64_MIN means that there is no reading.
 */
struct facet_hip_measure {
    uint32_t device;
    int64_t by_process, by_device;
    int lock_fd; /* descriptor of the device's lock among the processes of its vGPUs; -1: not locked */
};

/*
 * `_begin` is called before the runtime. After it, `_growth` returns the bytes that the runtime's call took. `_end`
 * follows each `_begin`, after the growth has been charged or abandoned.
 */
void facet_hip_measure_begin(struct facet_hip_measure *measure, uint32_t device);
uint64_t facet_hip_measure_growth(const struct facet_hip_measure *measure);
void facet_hip_measure_end(const struct facet_hip_measure *measure);

/*
 * For a device that is about to be initialized. Memory that this process already holds there without a charge was taken
 * by the runtime for itself, except `separate_bytes`, which are charged separately.
 */
void facet_hip_measure_begin_initialize(struct facet_hip_measure *measure, uint32_t device, uint64_t separate_bytes);

/* Called before and after a call that frees; `_freed` returns the bytes that it freed. Neither calls the runtime. */
void facet_hip_measure_begin_free(struct facet_hip_measure *measure, uint32_t device);
uint64_t facet_hip_measure_freed(const struct facet_hip_measure *measure);

#endif
