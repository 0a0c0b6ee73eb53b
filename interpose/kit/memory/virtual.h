/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory without an address, and mappings of it.
 *
 * Owns: the number of handles, mappings and other references of each such allocation, which is charged until the last
 * of them is gone. Never: charges memory of the host, or of another process.
 *
 * Handles and mappings are counted under a lock that the caller also holds during the vendor's call: the library may
 * reuse a handle or an address right after it was released. All functions but the first three and those for fork() need
 * the lock.
 *
 * Any process with an exported descriptor can hold the memory, and the closing of the last one cannot be observed. So
 * exported memory stays charged until this process ends.
 */
#ifndef FACET_MEMORY_VIRTUAL_H
#define FACET_MEMORY_VIRTUAL_H

#include "charge.h"

void facet_virtual_lock(void);
void facet_virtual_unlock(void);

/* Records memory that was made, and takes over `charge`. False when memory is out: the caller undoes the allocation. */
bool facet_virtual_made(const struct facet_memory_charge *charge, uint64_t handle);

/* A handle was released. Memory that is not ours is ignored, here and below. */
void facet_virtual_released(uint64_t handle);

/* Called before a mapping: false when memory is out. */
bool facet_virtual_reserve_mapping(void);
void facet_virtual_mapped(uint64_t address, uint64_t bytes, uint64_t handle);
void facet_virtual_unmapped(uint64_t address, uint64_t bytes);

/* A handle was exported for other processes. */
void facet_virtual_exported(uint64_t handle);

/* A handle was retained from a mapped address; a handle was imported. */
void facet_virtual_retained(uint64_t address, uint64_t handle);
void facet_virtual_imported(uint64_t handle);

/* Memory that is charged here, by handle, and by any mapped address; else NULL. */
struct facet_virtual;
struct facet_virtual *facet_virtual_find(uint64_t handle);
struct facet_virtual *facet_virtual_at(uint64_t address);
uint32_t facet_virtual_device(const struct facet_virtual *memory);

/* Another reference, which counts as a mapping. Each one added is dropped once. */
void facet_virtual_add_reference(struct facet_virtual *memory);
void facet_virtual_drop_reference(struct facet_virtual *memory);

void facet_virtual_before_fork(void);
void facet_virtual_after_fork(void);
void facet_virtual_forked(void);

#endif
