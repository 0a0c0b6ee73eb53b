/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging memory objects: reserve, create, and release when the driver has destroyed the object.
 *
 * Owns: the order of these steps, for buffers, pipes and images.
 * Never: frees an object of the program.
 */
#ifndef FACET_OPENCL_MEMORY_H
#define FACET_OPENCL_MEMORY_H

#include <CL/cl.h>

#include "process.h"

/*
 * Reserves `bytes` for an object about to be created; on refusal writes `errcode_ret` and returns false. After a
 * refusal by the quota, `probe` makes a small object of the same kind with the program's other arguments
 * (facet_cl_memory_probe_result()): if the driver refuses that too, its error takes precedence.
 */
bool facet_cl_memory_admit(uint64_t bytes, cl_int (*probe)(const void *request), const void *request,
                           facet_cl_charge *ret_charge, cl_int *errcode_ret);

/* Releases an object that was created as a probe, and returns the driver's result. */
cl_int facet_cl_memory_probe_result(cl_mem object, cl_int result);

/*
 * Releases the charge when the object is destroyed, or at once without an object. Returns the object, or NULL with
 * `errcode_ret` if the driver refuses the destructor callback: then the object is released again.
 */
cl_mem facet_cl_memory_bind(cl_mem object, facet_cl_charge charge, cl_int *errcode_ret);

/* bytes * count, or UINT64_MAX: no quota grants that. */
uint64_t facet_cl_memory_times(uint64_t bytes, uint64_t count);

#endif
