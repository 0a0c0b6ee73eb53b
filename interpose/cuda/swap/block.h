/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that can be swapped: the addresses stay, the memory behind them comes and goes in chunks.
 *
 * Owns: the list of blocks, and the operations that give a chunk memory, move it to the host, and bring it back.
 * Never: decides when a chunk moves. Chunks are touched only by a thread that holds the quiesce gate (quiesce.h)
 * exclusively, or by the thread that makes or frees their block.
 *
 * A chunk without memory has a copy of its bytes on the host, or none if it was never written. The host memory is
 * pinned when the chunk first leaves, and kept until the block is freed, because pinning is slow.
 */
#ifndef FACET_CUDA_BLOCK_H
#define FACET_CUDA_BLOCK_H

#include "interpose/cuda/memory/charge.h"

/* The driver's granularity, and the unit of moving: large enough that mapping costs little compared to copying. */
#define FACET_CUDA_PAGE  (UINT64_C(2) << 20)
#define FACET_CUDA_CHUNK (UINT64_C(32) << 20)

struct facet_cuda_chunk {
    CUmemGenericAllocationHandle handle; /* 0: without memory */
    void *host;                          /* NULL: not pinned yet */
    bool on_host;                        /* the host has the bytes */
};

struct facet_cuda_block {
    CUdeviceptr address;
    uint64_t requested_bytes, bytes; /* bytes: whole pages */
    CUcontext context;
    struct facet_cuda_charge charge;
    struct facet_cuda_block *next;
    uint32_t chunk_count;
    struct facet_cuda_chunk chunks[];
};

/* Reserves addresses without memory and takes the charge. The block is in no list yet. */
CUresult facet_cuda_block_make(uint32_t device, uint64_t requested_bytes, struct facet_cuda_block **ret_block);

/* Frees the block's memory and its charge. `context_ended`: the driver has freed the pinned host memory already. */
void facet_cuda_block_free(struct facet_cuda_block *block, bool context_ended);

void facet_cuda_blocks_add(struct facet_cuda_block *block);
/* Takes out the block that begins at `address`; NULL when there is none. */
struct facet_cuda_block *facet_cuda_blocks_take(CUdeviceptr address);
/* Takes out one block of a context; NULL when there is none left. */
struct facet_cuda_block *facet_cuda_blocks_take_of_context(CUcontext context);
/* The beginning and the requested size of the block that contains `address`. */
bool facet_cuda_blocks_range(CUdeviceptr address, CUdeviceptr *ret_base, size_t *ret_bytes);

/* Gives every chunk of the block memory, with its bytes. Returns the first result that is not success. */
CUresult facet_cuda_block_bring_in(struct facet_cuda_block *block);

/* facet_cuda_block_bring_in() for all blocks; `*ret_missing` is the number of bytes that are still without memory. */
CUresult facet_cuda_blocks_bring_in(uint64_t *ret_missing);

/*
 * Sends at least `bytes` of a device to the host, rounded up to chunks. The newest blocks go first, so that the oldest
 * always stay. Returns the bytes sent. They are fewer when the host lacks memory: the other bytes stay on the device.
 */
uint64_t facet_cuda_blocks_send_out(uint32_t device, uint64_t bytes);

void facet_cuda_blocks_before_fork(void);
void facet_cuda_blocks_after_fork(void);
void facet_cuda_blocks_forked(void);

#endif
