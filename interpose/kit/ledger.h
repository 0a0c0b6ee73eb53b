/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The charge of each allocation of this process, by its address or handle, so that freeing releases the same amount.
 *
 * Owns: a hash table in shards, each with a lock that is held for a few instructions.
 * Never: holds a lock while a driver is called; costs more with more entries; knows a vendor.
 *
 * Thread rule: every function from any thread. After fork the child calls facet_ledger_forked() before anything else,
 * which drops the parent's entries.
 */
#ifndef FACET_INTERPOSE_LEDGER_H
#define FACET_INTERPOSE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

struct facet_ledger_entry {
    uint64_t bytes;  /* charged */
    uint64_t owner;  /* the object with which the allocation ends: a context, a pool; defined by the interposer */
    uint32_t device; /* index of the charged tenant */
    uint32_t kind;   /* defined by the interposer */
};

struct facet_ledger;

/* NULL when memory is out. A process creates one ledger and keeps it until it ends. */
struct facet_ledger *facet_ledger_create(void);

/* Called with no other call in progress. NULL is allowed. */
void facet_ledger_destroy(struct facet_ledger *ledger);

/*
 * Adds an entry; false when memory is out, and the caller then frees its allocation. A key is not 0. Adding a key that
 * is present replaces its entry.
 */
bool facet_ledger_add(struct facet_ledger *ledger, uint64_t key, struct facet_ledger_entry entry);

/* Removes an entry; false when the key is absent (another process's memory, or the driver's own). */
bool facet_ledger_take(struct facet_ledger *ledger, uint64_t key, struct facet_ledger_entry *ret_entry);

/* Finds an entry without removing it. */
bool facet_ledger_find(struct facet_ledger *ledger, uint64_t key, struct facet_ledger_entry *ret_entry);

/*
 * Removes every entry that `belongs` accepts, for a context that ended or a device that was reset. `on_taken` is called
 * once for each, with no lock held. Entries that are added meanwhile may stay.
 */
void facet_ledger_drain(struct facet_ledger *ledger, bool (*belongs)(const struct facet_ledger_entry *, void *context),
                        void (*on_taken)(uint64_t key, const struct facet_ledger_entry *, void *context),
                        void *context);

void facet_ledger_before_fork(struct facet_ledger *ledger);
void facet_ledger_after_fork(struct facet_ledger *ledger);
void facet_ledger_forked(struct facet_ledger *ledger);

#endif
