/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: shards of open addressing with linear probing. A key's shard and its bucket come from different bits of one
 * product. Removing an entry leaves no tombstone: later entries of its cluster move up.
 * Never: probes beyond a cluster, which stays short because a shard grows at half full.
 */
#include "interpose/kit/ledger.h"

#include <pthread.h>
#include <stdlib.h>

#define SHARD_BITS    5u /* all are locked over a fork: the thread sanitizer tracks at most 63 locks at a time */
#define SHARDS        (1u << SHARD_BITS)
#define FIRST_BUCKETS 32u

struct bucket {
    uint64_t key; /* 0: empty */
    struct facet_ledger_entry entry;
};

struct shard {
    _Alignas(64) pthread_mutex_t lock;
    struct bucket *buckets;
    uint32_t mask, count; /* mask: buckets less one, a power of two; count: entries */
    uint32_t shift;       /* 64 less the bits of a bucket's index */
};

struct facet_ledger {
    struct shard shards[SHARDS];
};

static uint64_t mixed_key(uint64_t key)
{
    return key * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio: neighbours in `key` end up far apart */
}

static struct shard *shard_of(struct facet_ledger *ledger, uint64_t key)
{
    return &ledger->shards[mixed_key(key) >> (64 - SHARD_BITS)];
}

/* Uses the bits right below those of the shard, because a product's upper bits spread neighbours most evenly. */
static uint32_t home_of(const struct shard *shard, uint64_t key)
{
    return (uint32_t)((mixed_key(key) << SHARD_BITS) >> shard->shift);
}

/* The bucket of `key`, or the empty one where it would be added. */
static struct bucket *find_bucket(const struct shard *shard, uint64_t key)
{
    uint32_t at = home_of(shard, key);

    while (shard->buckets[at].key && shard->buckets[at].key != key)
        at = (at + 1) & shard->mask;
    return &shard->buckets[at];
}

static bool grow_shard(struct shard *shard)
{
    struct bucket *old = shard->buckets;
    uint32_t old_buckets = old ? shard->mask + 1 : 0;
    uint32_t buckets = old ? old_buckets * 2 : FIRST_BUCKETS;
    struct bucket *grown = calloc(buckets, sizeof *grown);

    if (!grown)
        return false;
    shard->buckets = grown;
    shard->mask = buckets - 1;
    shard->shift = 64 - (uint32_t)__builtin_ctz(buckets);
    for (uint32_t i = 0; i < old_buckets; i++)
        if (old[i].key)
            *find_bucket(shard, old[i].key) = old[i];
    free(old);
    return true;
}

/* Empties a bucket, and moves later entries of the cluster closer to their home buckets where possible. */
static void close_gap(struct shard *shard, uint32_t gap)
{
    uint32_t at = gap;

    for (;;) {
        at = (at + 1) & shard->mask;
        if (!shard->buckets[at].key)
            break;
        uint32_t home = home_of(shard, shard->buckets[at].key);
        if (((at - home) & shard->mask) < ((at - gap) & shard->mask))
            continue;
        shard->buckets[gap] = shard->buckets[at];
        gap = at;
    }
    shard->buckets[gap].key = 0;
    shard->count--;
}

struct facet_ledger *facet_ledger_create(void)
{
    struct facet_ledger *ledger = aligned_alloc(_Alignof(struct facet_ledger), sizeof *ledger);

    if (!ledger)
        return NULL;
    for (uint32_t i = 0; i < SHARDS; i++) {
        ledger->shards[i] = (struct shard){0};
        pthread_mutex_init(&ledger->shards[i].lock, NULL);
    }
    return ledger;
}

void facet_ledger_destroy(struct facet_ledger *ledger)
{
    for (uint32_t i = 0; ledger && i < SHARDS; i++) {
        pthread_mutex_destroy(&ledger->shards[i].lock);
        free(ledger->shards[i].buckets);
    }
    free(ledger);
}

bool facet_ledger_add(struct facet_ledger *ledger, uint64_t key, struct facet_ledger_entry entry)
{
    struct shard *shard = shard_of(ledger, key);

    pthread_mutex_lock(&shard->lock);
    bool room = (shard->buckets && shard->count <= shard->mask / 2) || grow_shard(shard);
    if (room) {
        struct bucket *bucket = find_bucket(shard, key);

        shard->count += !bucket->key;
        *bucket = (struct bucket){.key = key, .entry = entry};
    }
    pthread_mutex_unlock(&shard->lock);
    return room;
}

static bool look_up_entry(struct facet_ledger *ledger, uint64_t key, bool take, struct facet_ledger_entry *ret_entry)
{
    struct shard *shard = shard_of(ledger, key);
    bool found = false;

    pthread_mutex_lock(&shard->lock);
    if (shard->count) {
        struct bucket *bucket = find_bucket(shard, key);

        found = bucket->key == key;
        if (found)
            *ret_entry = bucket->entry;
        if (found && take)
            close_gap(shard, (uint32_t)(bucket - shard->buckets));
    }
    pthread_mutex_unlock(&shard->lock);
    return found;
}

bool facet_ledger_take(struct facet_ledger *ledger, uint64_t key, struct facet_ledger_entry *ret_entry)
{
    return look_up_entry(ledger, key, true, ret_entry);
}

bool facet_ledger_find(struct facet_ledger *ledger, uint64_t key, struct facet_ledger_entry *ret_entry)
{
    return look_up_entry(ledger, key, false, ret_entry);
}

/* Removes the next matching entry from a shard, from bucket `*at` on. */
static bool take_next(struct shard *shard, bool (*belongs)(const struct facet_ledger_entry *, void *context),
                      void *context, uint32_t *at, struct bucket *ret_taken)
{
    bool found = false;

    pthread_mutex_lock(&shard->lock);
    for (; !found && shard->count && *at <= shard->mask; *at += !found) {
        found = shard->buckets[*at].key && belongs(&shard->buckets[*at].entry, context);
        if (found) {
            *ret_taken = shard->buckets[*at];
            close_gap(shard, *at); /* another entry may have moved up to this bucket, so it is checked again */
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return found;
}

/*
 * Scans a shard once, and returns whether an entry matched. A cluster that wraps around the end of the table may move
 * an entry behind the scan, so the caller repeats it until no entry matches.
 */
static bool drain_once(struct shard *shard, bool (*belongs)(const struct facet_ledger_entry *, void *context),
                       void (*on_taken)(uint64_t key, const struct facet_ledger_entry *, void *context), void *context)
{
    struct bucket taken;
    uint32_t at = 0;
    bool found_any = false;

    while (take_next(shard, belongs, context, &at, &taken)) {
        on_taken(taken.key, &taken.entry, context);
        found_any = true;
    }
    return found_any;
}

void facet_ledger_drain(struct facet_ledger *ledger, bool (*belongs)(const struct facet_ledger_entry *, void *context),
                        void (*on_taken)(uint64_t key, const struct facet_ledger_entry *, void *context), void *context)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        while (drain_once(&ledger->shards[i], belongs, on_taken, context))
            ;
}

void facet_ledger_before_fork(struct facet_ledger *ledger)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        pthread_mutex_lock(&ledger->shards[i].lock);
}

void facet_ledger_after_fork(struct facet_ledger *ledger)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        pthread_mutex_unlock(&ledger->shards[i].lock);
}

void facet_ledger_forked(struct facet_ledger *ledger)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &ledger->shards[i];

        free(shard->buckets);
        shard->buckets = NULL;
        shard->mask = shard->count = 0;
        pthread_mutex_unlock(&shard->lock);
    }
}
