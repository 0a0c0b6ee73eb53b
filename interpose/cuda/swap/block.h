/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that can be swapped: addresses for good, memory in chunks that come and go.
 *
 * Owns: the list of them, and the calls by which a chunk gets memory, moves to the host, and comes back.
 * Never: decides when. Chunks are touched by who has the door to itself, or by who makes or frees their block.
 *
 * A chunk without memory has either a copy of its bytes on the host, or none because nothing was ever in it. The host's
 * memory is pinned when the chunk first leaves, and kept until the block goes: pinning is what takes long.
 */
#ifndef FACET_CUDA_BLOCK_H
#define FACET_CUDA_BLOCK_H

#include "interpose/cuda/memory/charge.h"

/* The driver's granularity, and what is moved at a time: large enough that mapping costs little beside copying. */
#define FACET_CUDA_PAGE  (UINT64_C(2) << 20)
#define FACET_CUDA_CHUNK (UINT64_C(32) << 20)

struct facet_cuda_chunk {
    CUmemGenericAllocationHandle handle; /* 0: without memory */
    void *host;                          /* NULL: not pinned yet */
    bool on_host;                        /* the bytes are there */
};

struct facet_cuda_block {
    CUdeviceptr address;
    uint64_t asked, bytes; /* bytes: whole pages */
    CUcontext context;
    struct facet_cuda_charge charge;
    struct facet_cuda_block *next;
    uint32_t count;
    struct facet_cuda_chunk chunks[];
};

/* Addresses without memory, charged; in no list yet. */
CUresult facet_cuda_block_make(uint32_t device, uint64_t asked, struct facet_cuda_block **ret_block);

/* All that it has, and its charge. `context_ended`: what was pinned in it is gone already. */
void facet_cuda_block_free(struct facet_cuda_block *block, bool context_ended);

void facet_cuda_blocks_add(struct facet_cuda_block *block);
/* Takes out the block that begins at `address`; NULL when there is none. */
struct facet_cuda_block *facet_cuda_blocks_take(CUdeviceptr address);
/* Takes out one of a context, until there is none: NULL. */
struct facet_cuda_block *facet_cuda_blocks_take_of(CUcontext context);
/* Where the block that has `address` begins, and how much of it was asked for. */
bool facet_cuda_blocks_range(CUdeviceptr address, CUdeviceptr *ret_base, size_t *ret_bytes);

/* Memory for every chunk of the block, with its bytes. What the driver answered first that was no success. */
CUresult facet_cuda_block_bring_in(struct facet_cuda_block *block);

/* The same for all blocks; and how many bytes are still without. */
CUresult facet_cuda_blocks_bring_in(uint64_t *ret_missing);

/* Sends so many bytes of a device to the host, or a chunk more. Newest first, so that what stays is always the same.
 * Returns what went: less when the host has no memory for it, and nothing is lost. */
uint64_t facet_cuda_blocks_send_out(uint32_t device, uint64_t bytes);

void facet_cuda_blocks_before_fork(void);
void facet_cuda_blocks_after_fork(void);
void facet_cuda_blocks_forked(void);

#endif
