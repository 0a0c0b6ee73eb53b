/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the ring of samples, with a sequence lock for each entry. Never: blocks.
 *
 * Every word of an entry is atomic. There are no fences, since the thread sanitizer does not support them. Instead,
 * words are stored with release after the sequence was made odd, and loaded with acquire before the sequence is read
 * again: a reader that sees one word of a later sample also sees that the sequence has changed.
 */
#include "monitor/history.h"

#include <stdatomic.h>
#include <stdlib.h>

#define SAMPLE_WORDS (2u + FACET_SAMPLE_FIELDS)

struct entry {
    atomic_uint_least64_t sequence; /* 2 * number + 1 while sample `number` is written, 2 * number + 2 afterwards */
    atomic_uint_least64_t words[SAMPLE_WORDS];
};

struct facet_history {
    uint32_t capacity;
    uint64_t last_ns;            /* time of the newest sample; only the writer reads it */
    atomic_uint_least64_t added; /* how many samples so far, which is also the number of the next sample */
    struct entry entries[];
};

enum facet_status facet_history_create(uint32_t capacity, struct facet_history **ret_history, struct facet_error *error)
{
    if (capacity == 0 || capacity > FACET_HISTORY_MAX)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "capacity %u: expected 1 to %u samples", capacity,
                               FACET_HISTORY_MAX);
    struct facet_history *history = calloc(1, sizeof *history + capacity * sizeof history->entries[0]);

    if (!history)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a history of %u samples", capacity);
    history->capacity = capacity;
    *ret_history = history;
    return FACET_OK;
}

void facet_history_destroy(struct facet_history *history)
{
    free(history);
}

static uint64_t word_of(const struct facet_sample *sample, uint32_t index)
{
    return index == 0 ? sample->time_ns : index == 1 ? sample->valid : sample->values[index - 2];
}

bool facet_history_add(struct facet_history *history, const struct facet_sample *sample)
{
    uint64_t number = atomic_load_explicit(&history->added, memory_order_relaxed);
    struct entry *entry = &history->entries[number % history->capacity];

    if (number > 0 && sample->time_ns <= history->last_ns)
        return false;
    history->last_ns = sample->time_ns;
    atomic_store_explicit(&entry->sequence, 2 * number + 1, memory_order_relaxed);
    for (uint32_t i = 0; i < SAMPLE_WORDS; i++)
        atomic_store_explicit(&entry->words[i], word_of(sample, i), memory_order_release);
    atomic_store_explicit(&entry->sequence, 2 * number + 2, memory_order_release);
    atomic_store_explicit(&history->added, number + 1, memory_order_release);
    return true;
}

/* Returns whether sample `number` was read whole: false once it is overwritten. */
static bool read_sample(const struct facet_history *history, uint64_t number, struct facet_sample *ret_sample)
{
    const struct entry *entry = &history->entries[number % history->capacity];
    uint64_t words[SAMPLE_WORDS];

    if (atomic_load_explicit(&entry->sequence, memory_order_acquire) != 2 * number + 2)
        return false;
    for (uint32_t i = 0; i < SAMPLE_WORDS; i++)
        words[i] = atomic_load_explicit(&entry->words[i], memory_order_acquire);
    if (atomic_load_explicit(&entry->sequence, memory_order_relaxed) != 2 * number + 2)
        return false;
    ret_sample->time_ns = words[0];
    ret_sample->valid = (uint32_t)words[1];
    for (uint32_t i = 0; i < FACET_SAMPLE_FIELDS; i++)
        ret_sample->values[i] = words[2 + i];
    return true;
}

static uint64_t oldest_number(const struct facet_history *history, uint64_t added)
{
    return added > history->capacity ? added - history->capacity : 0;
}

size_t facet_history_latest(const struct facet_history *history, struct facet_sample *ret_samples, size_t max)
{
    uint64_t added = atomic_load_explicit(&history->added, memory_order_acquire);
    uint64_t oldest = oldest_number(history, added);
    size_t count = 0;

    for (uint64_t number = added; number > oldest && count < max; number--) {
        if (!read_sample(history, number - 1, &ret_samples[count]))
            break; /* overwritten, as are all older samples */
        count++;
    }
    return count;
}

/*
 * Finds by bisection the number of the first sample after `after_ns`, because times grow with numbers. A sample that is
 * overwritten meanwhile counts as earlier.
 */
static uint64_t first_after(const struct facet_history *history, uint64_t after_ns, uint64_t low, uint64_t high)
{
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        struct facet_sample sample;

        if (read_sample(history, middle, &sample) && sample.time_ns > after_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

size_t facet_history_since(const struct facet_history *history, uint64_t after_ns, struct facet_sample *ret_samples,
                           size_t max)
{
    uint64_t added = atomic_load_explicit(&history->added, memory_order_acquire);
    size_t count = 0;

    for (uint64_t number = first_after(history, after_ns, oldest_number(history, added), added);
         number < added && count < max; number++)
        if (read_sample(history, number, &ret_samples[count]))
            count++;
    return count;
}

/* ---- windows ---- */

struct window {
    const struct facet_sample *samples;
    size_t count;
    enum facet_sample_field field;
    uint64_t from_ns, until_ns;
};

static bool value_of(const struct window *window, size_t index, uint64_t *ret_value)
{
    const struct facet_sample *sample = &window->samples[index];

    return sample->time_ns >= window->from_ns && sample->time_ns < window->until_ns &&
           facet_sample_get(sample, window->field, ret_value);
}

static size_t count_up_to(const struct window *window, uint64_t bound)
{
    size_t count = 0;
    uint64_t value;

    for (size_t i = 0; i < window->count; i++)
        count += value_of(window, i, &value) && value <= bound;
    return count;
}

/* Bisects the range of values: at most 64 passes over the samples, and no memory for sorting. */
static uint64_t percentile_of(const struct window *window, const struct facet_summary *summary, uint32_t milli)
{
    uint64_t low = summary->min, high = summary->max;
    size_t rank = (summary->count * (milli < 1000 ? milli : 1000) + 999) / 1000;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (count_up_to(window, middle) >= (rank > 0 ? rank : 1))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct facet_summary facet_samples_summarize(const struct facet_sample *samples, size_t count,
                                             enum facet_sample_field field, uint64_t from_ns, uint64_t until_ns,
                                             uint32_t percentile_milli)
{
    __extension__ typedef unsigned __int128 wide;
    const struct window window = {samples, count, field, from_ns, until_ns};
    struct facet_summary summary = {.min = UINT64_MAX};
    uint64_t value;
    wide sum = 0;

    for (size_t i = 0; i < count; i++) {
        if (!value_of(&window, i, &value))
            continue;
        summary.count++;
        summary.min = value < summary.min ? value : summary.min;
        summary.max = value > summary.max ? value : summary.max;
        sum += value;
    }
    if (summary.count == 0)
        return (struct facet_summary){0};
    summary.mean = (uint64_t)(sum / summary.count);
    summary.percentile = percentile_of(&window, &summary, percentile_milli);
    return summary;
}
