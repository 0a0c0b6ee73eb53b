/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each allocation of this process was charged, by its address or handle: so that freeing gives back what was
 * taken.
 *
 * Owns: a hash table in shards, each with a lock that is held for a few instructions.
 * Never: holds a lock while a driver is called; costs more when more is alive; knows a vendor.
 *
 * Thread rule: every function from any thread. After fork the child calls facet_ledger_forked() before anything else:
 * what the parent made is not the child's, and is forgotten.
 */
#ifndef FACET_INTERPOSE_LEDGER_H
#define FACET_INTERPOSE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

struct facet_ledger_entry {
    uint64_t bytes;  /* charged */
    uint64_t owner;  /* with whom it dies: a context, a pool; the interposer's own */
    uint32_t device; /* index of the tenant that pays */
    uint32_t kind;   /* the interposer's own */
};

struct facet_ledger;

/* NULL when memory is out. One process keeps one for its life. */
struct facet_ledger *facet_ledger_create(void);

/* With no call under way. NULL is allowed. */
void facet_ledger_destroy(struct facet_ledger *ledger);

/*
 * Adds; false when memory is out, then the caller frees what it allocated. A key is not 0, and is added once until it
 * is taken: another entry under the same key replaces the first.
 */
bool facet_ledger_add(struct facet_ledger *ledger, uint64_t key, struct facet_ledger_entry entry);

/* Takes out; false when the key is not there (somebody else's, or the driver's own). */
bool facet_ledger_take(struct facet_ledger *ledger, uint64_t key, struct facet_ledger_entry *ret_entry);

/* Looks without taking. */
bool facet_ledger_find(struct facet_ledger *ledger, uint64_t key, struct facet_ledger_entry *ret_entry);

/*
 * Takes out every entry that belongs, one call of `gone` each, with no lock held: a context or device was reset. What
 * is added meanwhile may stay.
 */
void facet_ledger_drain(struct facet_ledger *ledger, bool (*belongs)(const struct facet_ledger_entry *, void *context),
                        void (*gone)(uint64_t key, const struct facet_ledger_entry *, void *context), void *context);

void facet_ledger_before_fork(struct facet_ledger *ledger);
void facet_ledger_after_fork(struct facet_ledger *ledger);
void facet_ledger_forked(struct facet_ledger *ledger);

#endif
