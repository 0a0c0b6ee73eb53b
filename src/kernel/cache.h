/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel cache: a folder of images that were compiled before, shared by all processes of a user.
 *
 * Owns: the folder and its safety, finding and keeping, who compiles while others wait, throwing the oldest away.
 * Never: makes a compile fail. A damaged entry is a miss; a folder that is not safe is not used; one that cannot be
 *        written keeps nothing.
 *
 *     KEY.kernel       an entry (cache_entry.h); its access time is that of the last hit
 *     KEY.lock         held (flock) by who compiles it now; the kernel lets go of it when that process dies
 *     KEY.*.tmp        being written; becomes KEY.kernel by renaming
 *     usage            how many bytes the entries have, and the lock under which they are counted and thrown away
 *
 * Thread rule: open and close by one thread, the rest by any number.
 */
#ifndef FACET_KERNEL_CACHE_H
#define FACET_KERNEL_CACHE_H

#include <stdbool.h>

#include "kernel/image.h"
#include "kernel/key.h"

struct facet_cache {
    int folder;             /* -1: there is none, nothing is found or kept */
    uint32_t mode;          /* enum facet_cache_mode */
    uint64_t limit;         /* bytes */
    struct facet_error why; /* there is no folder; its status is FACET_OK where none was asked for */
};

/* Opens the folder, and makes it unless it is only to be read. FACET_INVALID_ARGUMENT, FACET_OUT_OF_RANGE: what was
 * asked for is none. */
enum facet_status facet_cache_open(const struct facet_compiler_options *options, struct facet_cache *ret_cache,
                                   struct facet_error *error);
void facet_cache_close(struct facet_cache *cache);

/* NULL: a miss, also when a file that the image was made of is another one now. */
struct facet_image *facet_cache_find(const struct facet_cache *cache, const struct facet_cache_key *key);
/* Not what is unrepeatable, which is no error. Where it cannot, nothing of the image stays in the folder. */
enum facet_status facet_cache_keep(const struct facet_cache *cache, const struct facet_cache_key *key,
                                   const struct facet_image *image, struct facet_error *error);

/*
 * The right to compile a key: waits while another thread or process has it, for at most `wait_ns`. A descriptor for
 * facet_cache_unlock(), -1 without one: then look once more and compile all the same.
 */
int facet_cache_lock(const struct facet_cache *cache, const struct facet_cache_key *key, uint64_t wait_ns);
void facet_cache_unlock(const struct facet_cache *cache, const struct facet_cache_key *key, int lock);

/* Takes `bytes` more into the count, and throws the least recently used entries away when it is above the limit
 * (evict.c). */
void facet_cache_account(const struct facet_cache *cache, uint64_t bytes);

/* How full it is, counted from the files. */
struct facet_cache_usage {
    uint64_t entries, bytes;
};
bool facet_cache_measure(const struct facet_cache *cache, struct facet_cache_usage *ret_usage);

#endif
