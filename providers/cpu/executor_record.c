/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a stream's ring of records. Never: changes or reorders the records that it is given. */
#include <stdlib.h>

#include "executor_parts.h"

#define FIRST_CAPACITY 16u

/* A ring that cannot grow drops its oldest record earlier. The new capacity begins with the oldest record. */
static void grow_ring(struct cpu_stream *stream)
{
    uint32_t capacity = stream->record_capacity ? stream->record_capacity * 2 : FIRST_CAPACITY;

    if (stream->recorded < stream->record_capacity || stream->record_capacity >= CPU_RECORDS)
        return;
    /* The ring is full for the first time and has not wrapped, so the records are in the order of the array. */
    struct facet_launch_record *records =
        stream->recorded == stream->record_capacity ? reallocarray(stream->records, capacity, sizeof *records) : NULL;
    if (!records)
        return;
    stream->records = records;
    stream->record_capacity = capacity;
}

void cpu_record_keep(struct cpu_stream *stream, const struct facet_launch_record *record)
{
    grow_ring(stream);
    if (stream->record_capacity > 0)
        stream->records[stream->recorded % stream->record_capacity] = *record;
    stream->recorded++;
}

uint32_t cpu_stream_records(struct cpu_stream *stream, uint64_t after, struct facet_launch_record *records,
                            uint32_t capacity)
{
    struct cpu_executor *executor = stream->tenant->executor;
    uint32_t count = 0;

    pthread_mutex_lock(&executor->lock);
    uint64_t oldest = stream->recorded > stream->record_capacity ? stream->recorded - stream->record_capacity : 0;

    for (uint64_t i = oldest; i < stream->recorded; i++) {
        const struct facet_launch_record *record = &stream->records[i % stream->record_capacity];

        if (record->sequence <= after)
            continue;
        if (records && count < capacity)
            records[count] = *record;
        count++;
    }
    pthread_mutex_unlock(&executor->lock);
    return count;
}
