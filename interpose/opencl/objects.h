/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer's record of objects of the program: a small map from a handle or pointer to one word.
 *
 * Owns: the maps (SVM and USM pointers, programs, queues) under one lock.
 * Never: keeps an object alive, or calls OpenCL.
 *
 * Thread rule: callable from any thread. Memory objects need no map: their destructor callback carries the charge.
 */
#ifndef FACET_OPENCL_OBJECTS_H
#define FACET_OPENCL_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

enum facet_cl_map {
    FACET_CL_POINTERS,      /* charge of an SVM or USM allocation */
    FACET_CL_PROGRAMS,      /* charge of a program's global variables */
    FACET_CL_QUEUES,        /* how a queue differs from the program's request; see queue.c */
    FACET_CL_DEVICE_QUEUES, /* charge of a queue that lives on the device */
    FACET_CL_MAPS,
};

/*
 * Stores `value` under `key` and writes the previous value, or 0, to *ret_old (may be NULL). False when memory is out.
 */
bool facet_cl_map_put(enum facet_cl_map map, const void *key, uint64_t value, uint64_t *ret_old);
bool facet_cl_map_get(enum facet_cl_map map, const void *key, uint64_t *ret_value);

/* Takes the entry out; false when there is none. */
bool facet_cl_map_take(enum facet_cl_map map, const void *key, uint64_t *ret_value);

/* Whether the map is empty, without its lock: callers check this before they query the driver for a key. */
bool facet_cl_map_empty(enum facet_cl_map map);

#endif
