/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver behind us: opened at the first call of any function.
 *
 * Owns: its handle, and what hooks call of it (hooks.h).
 * Never: is opened in a constructor; is asked for a name twice.
 *
 * Where there is no driver every function answers CUDA_ERROR_NO_DEVICE: our library is there, so the program could open
 * it, and that is what a driver says in whose machine is no GPU. A function that the driver lacks answers
 * CUDA_ERROR_NOT_SUPPORTED.
 */
#ifndef FACET_CUDA_DRIVER_H
#define FACET_CUDA_DRIVER_H

#include <stdbool.h>

/* Opens the driver and fills facet_cuda_driver and facet_cuda_plain, once. False when there is none. Any thread. */
bool facet_cuda_driver_open(void);

/* The driver's own exported function, NULL when it has none of that name. After facet_cuda_driver_open() was true. */
void *facet_cuda_driver_symbol(const char *name);

/* From within process.c: no child inherits a driver half opened. */
void facet_cuda_driver_before_fork(void);
void facet_cuda_driver_after_fork(void);

#endif
