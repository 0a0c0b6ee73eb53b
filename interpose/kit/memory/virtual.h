/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory without an address, and mappings of it.
 *
 * Owns: how many handles and mappings each such memory has, and what else holds it: it is charged until the last of
 * them goes. Never: charges what is the host's, or another process's.
 *
 * Handles and mappings are counted under a lock that the caller holds over the vendor's call, too: the library may give
 * a handle or an address again as soon as it has taken it back. All but the first three and fork's are under the lock.
 *
 * Whoever has what was exported of it, a file descriptor, can hold it, and nobody learns when the last one is
 * closed: so what was exported stays charged until this process ends.
 */
#ifndef FACET_MEMORY_VIRTUAL_H
#define FACET_MEMORY_VIRTUAL_H

#include "charge.h"

void facet_virtual_lock(void);
void facet_virtual_unlock(void);

/* Memory was made, and paid by `charge`, which is its from now on. False when memory is out: the caller undoes. */
bool facet_virtual_made(const struct facet_memory_charge *charge, uint64_t handle);

/* A handle was released; memory that is not ours is passed over, here and below. */
void facet_virtual_released(uint64_t handle);

/* Before a mapping: false when memory is out. */
bool facet_virtual_make_place(void);
void facet_virtual_mapped(uint64_t address, uint64_t bytes, uint64_t handle);
void facet_virtual_unmapped(uint64_t address, uint64_t bytes);

/* A handle was given a form that others can open. */
void facet_virtual_exported(uint64_t handle);

/* A handle was got of what is mapped at an address; one came back from a shared form. */
void facet_virtual_retained(uint64_t address, uint64_t handle);
void facet_virtual_imported(uint64_t handle);

/* Memory that is charged here, by handle, and by any address where it is mapped; else NULL. */
struct facet_virtual;
struct facet_virtual *facet_virtual_find(uint64_t handle);
struct facet_virtual *facet_virtual_at(uint64_t address);
uint32_t facet_virtual_device(const struct facet_virtual *memory);

/* What else holds it counts as a mapping. Each hold is let go once. */
void facet_virtual_hold(struct facet_virtual *memory);
void facet_virtual_let_go(struct facet_virtual *memory);

void facet_virtual_before_fork(void);
void facet_virtual_after_fork(void);
void facet_virtual_forked(void);

#endif
