/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging memory objects: reserve, create, and give back when the object really dies.
 *
 * Owns: the order of those three, for buffers, pipes and images alike.
 * Never: frees an object of the program.
 */
#ifndef FACET_OPENCL_MEMORY_H
#define FACET_OPENCL_MEMORY_H

#include <CL/cl.h>

#include "process.h"

/*
 * Reserves `bytes` for an object about to be created; on refusal writes `errcode_ret` and returns false. `judge` makes
 * a small one of its kind with the program's other arguments (facet_cl_memory_judged()): a call that the driver refuses
 * anyway is refused with its error.
 */
bool facet_cl_memory_admit(uint64_t bytes, cl_int (*judge)(const void *asked), const void *asked,
                           facet_cl_charge *ret_charge, cl_int *errcode_ret);

/* The driver's verdict on an object that was created only to ask for it, and is released. */
cl_int facet_cl_memory_judged(cl_mem object, cl_int result);

/*
 * Ties the charge to the object the driver made (or gives it back when it made none). Returns the object, or NULL with
 * `errcode_ret` when the driver will not tell us of its death: an object that could not be accounted for is undone.
 */
cl_mem facet_cl_memory_bind(cl_mem object, facet_cl_charge charge, cl_int *errcode_ret);

/* bytes * count, or UINT64_MAX: no quota grants that. */
uint64_t facet_cl_memory_times(uint64_t bytes, uint64_t count);

#endif
