/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel cache: a folder of compiled images, shared by all processes of a user.
 *
 * Owns: the folder and its safety, finding and keeping images, the lock that lets one process compile while others
 * wait, evicting the least recently used images.
 * Never: makes a compile fail. A damaged entry is a miss; a folder that is not safe is not used; in a folder
 *        that cannot be written nothing is kept.
 *
 *     KEY.kernel       an entry (cache_entry.h); its access time is the time of the last hit
 *     KEY.lock         held (flock) by the process that compiles the image; its death releases the lock
 *     KEY.*.tmp        a file that is being written; renamed to KEY.kernel
 *     usage            how many bytes the entries have, and the lock under which they are counted and evicted
 *
 * Thread rule: one thread opens and closes a cache; any number of threads may call the other functions.
 */
#ifndef FACET_KERNEL_CACHE_H
#define FACET_KERNEL_CACHE_H

#include <stdbool.h>

#include "kernel/image.h"
#include "kernel/key.h"

struct facet_cache {
    int folder;                      /* -1: no folder, so nothing is found or kept */
    uint32_t mode;                   /* enum facet_cache_mode */
    uint64_t limit;                  /* bytes */
    struct facet_error folder_error; /* why there is no folder; FACET_OK when none was requested */
};

/*
 * Opens the folder, and makes it unless the mode is read-only. FACET_INVALID_ARGUMENT, FACET_OUT_OF_RANGE: an option is
 * invalid.
 */
enum facet_status facet_cache_open(const struct facet_compiler_options *options, struct facet_cache *ret_cache,
                                   struct facet_error *error);
void facet_cache_close(struct facet_cache *cache);

/* NULL: a miss. An image is a miss, too, when a file that it was made of has changed since. */
struct facet_image *facet_cache_find(const struct facet_cache *cache, const struct facet_cache_key *key);
/* Writes an image into the folder. An image whose list of files that it was made of is incomplete (`unrepeatable`) is
 * not written, which is no error. After a failure nothing of the image stays in the folder. */
enum facet_status facet_cache_keep(const struct facet_cache *cache, const struct facet_cache_key *key,
                                   const struct facet_image *image, struct facet_error *error);

/*
 * Takes the lock of a key, and waits at most `wait_ns` while another thread or process has it. Returns a descriptor for
 * facet_cache_unlock(), or -1 without the lock. In both cases the caller looks for the image once more before it
 * compiles.
 */
int facet_cache_lock(const struct facet_cache *cache, const struct facet_cache_key *key, uint64_t wait_ns);
void facet_cache_unlock(const struct facet_cache *cache, const struct facet_cache_key *key, int lock);

/* Adds `bytes` to the cache's size, and evicts the least recently used entries when that is above the limit
 * (evict.c). */
void facet_cache_account(const struct facet_cache *cache, uint64_t bytes);

/* How full the cache is, counted from its files. */
struct facet_cache_usage {
    uint64_t entries, bytes;
};
bool facet_cache_measure(const struct facet_cache *cache, struct facet_cache_usage *ret_usage);

#endif
