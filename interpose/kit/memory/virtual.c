/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the counts of handles and mappings. Never: calls the vendor's library. */
#include "virtual.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct facet_virtual {
    struct facet_memory_charge charge;
    uint64_t handle;
    uint64_t handles, mappings; /* mappings: includes other references */
    bool exported;
};

/* Sorted by address; no two overlap. */
struct mapping {
    uint64_t address, bytes;
    struct facet_virtual *memory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *mappings;
static size_t mapping_count, mapping_room;

void facet_virtual_lock(void)
{
    pthread_mutex_lock(&lock);
}

void facet_virtual_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

struct facet_virtual *facet_virtual_find(uint64_t handle)
{
    struct facet_ledger *ledger = facet_memory_driver.ledger();
    struct facet_ledger_entry entry;

    if (!ledger || !handle || !facet_ledger_find(ledger, facet_memory_key(FACET_MEMORY_VIRTUAL, handle), &entry))
        return NULL;
    return (struct facet_virtual *)(uintptr_t)entry.owner; /* NOLINT(performance-no-int-to-ptr): ours */
}

static void free_if_unused(struct facet_virtual *memory)
{
    if (memory->handles || memory->mappings)
        return;
    if (!memory->exported)
        facet_charge_drop(&memory->charge);
    free(memory);
}

/* The first mapping that ends after `address`. */
static size_t first_mapping_after(uint64_t address)
{
    size_t low = 0, high = mapping_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (mappings[middle].address + mappings[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct facet_virtual *facet_virtual_at(uint64_t address)
{
    size_t at = first_mapping_after(address);

    return at < mapping_count && mappings[at].address <= address ? mappings[at].memory : NULL;
}

uint32_t facet_virtual_device(const struct facet_virtual *memory)
{
    return memory->charge.device;
}

void facet_virtual_add_reference(struct facet_virtual *memory)
{
    memory->mappings++;
}

void facet_virtual_drop_reference(struct facet_virtual *memory)
{
    memory->mappings--;
    free_if_unused(memory);
}

bool facet_virtual_made(const struct facet_memory_charge *charge, uint64_t handle)
{
    struct facet_virtual *memory = malloc(sizeof *memory);

    if (!memory)
        return false;
    *memory = (struct facet_virtual){.charge = *charge, .handle = handle, .handles = 1};
    if (facet_charge_keep(charge, FACET_MEMORY_VIRTUAL, handle, (uintptr_t)memory))
        return true;
    free(memory);
    return false;
}

void facet_virtual_released(uint64_t handle)
{
    struct facet_virtual *memory = facet_virtual_find(handle);
    struct facet_ledger_entry entry;

    if (!memory || --memory->handles)
        return;
    facet_ledger_take(facet_memory_driver.ledger(), facet_memory_key(FACET_MEMORY_VIRTUAL, handle), &entry);
    free_if_unused(memory);
}

bool facet_virtual_reserve_mapping(void)
{
    size_t room = mapping_room ? mapping_room * 2 : 64;
    struct mapping *larger;

    if (mapping_count < mapping_room)
        return true;
    larger = realloc(mappings, room * sizeof *mappings);
    if (!larger)
        return false;
    mappings = larger;
    mapping_room = room;
    return true;
}

void facet_virtual_mapped(uint64_t address, uint64_t bytes, uint64_t handle)
{
    struct facet_virtual *memory = facet_virtual_find(handle);
    size_t at = first_mapping_after(address);

    if (!memory)
        return;
    memmove(&mappings[at + 1], &mappings[at], (mapping_count++ - at) * sizeof *mappings);
    mappings[at] = (struct mapping){.address = address, .bytes = bytes, .memory = memory};
    memory->mappings++;
}

/* One call may end several mappings. */
void facet_virtual_unmapped(uint64_t address, uint64_t bytes)
{
    size_t first = first_mapping_after(address), end = first;

    while (end < mapping_count && mappings[end].address < address + bytes) {
        facet_virtual_drop_reference(mappings[end].memory);
        end++;
    }
    if (end > first)
        memmove(&mappings[first], &mappings[end], (mapping_count - end) * sizeof *mappings);
    mapping_count -= end - first;
}

/* Counts one more handle of memory that is charged here: its handle, or a new handle if it had only mappings. */
void facet_virtual_retained(uint64_t address, uint64_t handle)
{
    struct facet_virtual *memory = facet_virtual_at(address);

    if (!memory || (memory->handles && memory->handle != handle))
        return; /* a second handle for the same memory; only the first counts */
    memory->handle = handle;
    if (memory->handles || facet_charge_keep(&memory->charge, FACET_MEMORY_VIRTUAL, handle, (uintptr_t)memory))
        memory->handles++;
}

void facet_virtual_exported(uint64_t handle)
{
    struct facet_virtual *memory = facet_virtual_find(handle);

    if (memory)
        memory->exported = true;
}

/* Counts only memory of this process that is imported back. */
void facet_virtual_imported(uint64_t handle)
{
    struct facet_virtual *memory = facet_virtual_find(handle);

    if (memory)
        memory->handles++;
}

void facet_virtual_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void facet_virtual_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* The mappings are the parent's; memory without a mapping was known to the ledger alone. */
void facet_virtual_forked(void)
{
    mapping_count = 0;
    pthread_mutex_unlock(&lock);
}
