/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of a vGPU, and the numbers of its launches.
 *
 * Owns: the stream's lock, its records and its state as last read from the device. Never: chooses what is launched.
 */
#ifndef FACET_VGPU_STREAM_H
#define FACET_VGPU_STREAM_H

#include <pthread.h>
#include <stdbool.h>

#include <facet/session.h>

struct facet_vgpu;

/* How many records of a stream's last launches are kept. */
#define FACET_STREAM_RECORDS 512u

struct facet_vgpu_stream {
    pthread_mutex_t
        lock;        /* protects the members below; held while work is queued, so that sequence numbers are in order */
    uint64_t number; /* the provider's number for it; 0: never used */
    uint32_t priority;
    uint64_t launched;                   /* the last sequence number given */
    uint64_t last_read;                  /* the last record that was read */
    struct facet_launch_record *records; /* a ring: index is the sequence number modulo `capacity` */
    uint32_t capacity;                   /* at most FACET_STREAM_RECORDS */
    struct facet_stream_state state;     /* as last read from the device */
    uint64_t delay_ns, failed, cancelled;
    bool lost_records; /* records were lost, so the three sums above are incomplete */
};

enum facet_status facet_vgpu_streams_init(struct facet_vgpu *vgpu, uint32_t count, struct facet_error *error);
/* Destroys the vGPU's streams on the device (clear), and frees their objects here (free). */
void facet_vgpu_streams_clear(struct facet_vgpu *vgpu);
void facet_vgpu_streams_free(struct facet_vgpu *vgpu);
/* Cancels the work of every stream. */
void facet_vgpu_streams_cancel(struct facet_vgpu *vgpu);
/* Locks the stream, and makes it at its first use. Paired with facet_vgpu_stream_close(). */
enum facet_status facet_vgpu_stream_open(struct facet_vgpu *vgpu, uint32_t index, struct facet_vgpu_stream **ret_stream,
                                         struct facet_error *error);
/* Unlocks the stream. `status` FACET_OK: work was queued, and its sequence number is returned. */
uint64_t facet_vgpu_stream_close(struct facet_vgpu_stream *stream, enum facet_status status);
/* Reads the state and the new records. With the stream's lock held. */
enum facet_status facet_vgpu_stream_drain_records(struct facet_vgpu *vgpu, struct facet_vgpu_stream *stream,
                                                  struct facet_error *error);
/* Waits without a timeout until the work that is queued on the execution's stream is over. */
enum facet_status facet_vgpu_stream_drain(struct facet_vgpu *vgpu, uint64_t execution);
/* Whether the stream has incomplete work, by its state as last read. */
bool facet_vgpu_stream_is_busy(const struct facet_vgpu_stream *stream);

/* ---- execution numbers: a stream's index and the sequence number of a launch in it ---- */

#define FACET_EXECUTION_SHIFT 48u

static inline uint64_t facet_execution_number(uint32_t stream, uint64_t sequence)
{
    return (uint64_t)(stream + 1) << FACET_EXECUTION_SHIFT | sequence;
}

#endif
