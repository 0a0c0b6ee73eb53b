/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real driver: opened at the first call of any function.
 *
 * Owns: its handle, and the tables of its functions that hooks call (hooks.h).
 * Never: is opened in a constructor; looks a name up twice.
 *
 * Without a driver every function answers CUDA_ERROR_NO_DEVICE, as a driver does on a machine without a GPU. A function
 * that the driver lacks answers CUDA_ERROR_NOT_SUPPORTED.
 */
#ifndef FACET_CUDA_DRIVER_H
#define FACET_CUDA_DRIVER_H

#include <stdbool.h>

/* Opens the driver and fills facet_cuda_driver and facet_cuda_unhooked, once. False when there is none. Any thread. */
bool facet_cuda_driver_open(void);

/* The driver's exported function of that name, or NULL. Called after facet_cuda_driver_open() has returned true. */
void *facet_cuda_driver_symbol(const char *name);

/* Called from process.c, so that no child inherits a half-opened driver. */
void facet_cuda_driver_before_fork(void);
void facet_cuda_driver_after_fork(void);

#endif
