/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the charge of memory that programs hold by raw pointer (SVM, and Intel's unified shared memory).
 * Never: dereferences such a pointer.
 */
#ifndef FACET_OPENCL_SVM_H
#define FACET_OPENCL_SVM_H

#include "process.h"

/* Ties a charge to the pointer that the driver returned; false when memory is out: the caller then frees it. */
bool facet_cl_pointer_bind(void *pointer, facet_cl_charge charge);

/*
 * Takes the charge of a pointer about to be freed; 0 when there is none. Called before the free, because another
 * allocation may get the address right after it.
 */
facet_cl_charge facet_cl_pointer_unbind(const void *pointer);

#endif
