/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every hook of a copy or fill, one by one: its arguments reach the vendor's function of the same form, and it counts
 * as many bytes as it moves.
 *
 * Owns: a vendor's function that records its arguments; the row with the expectations for a call.
 * Never: opens a library or enters a vGPU: nothing here is large enough to wait for one.
 *
 * A call is made in words, as the processor passes all arguments except floating-point numbers: the first six in
 * registers, the others one after another on the stack. Words are small numbers, each a different one, so that a
 * misplaced word is noticed at any width. No word is a valid address, so a hook that reads memory at a word needlessly
 * crashes.
 */
#ifndef FACET_TEST_TRANSFERS_H
#define FACET_TEST_TRANSFERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "interpose/kit/execution/transfer.h"

enum { WORDS = 16, FACTORS = 3, POINTERS = 3, REGISTERS = 6 };

#define WORD(i)        (3 + 2 * (uint64_t)(i))
#define FIRST_WORDS(n) ((1U << (n)) - 1)

struct row {
    const char *name;               /* without a suffix: the per-thread form of the call shares the row */
    uint32_t words;                 /* a bit for each word that the call takes; 0: the call has no test here */
    uint64_t unit;                  /* the call moves `unit` bytes times the product of the words in `factors` */
    uint8_t factors[FACTORS];       /* each is the index of a word, plus 1 */
    uint64_t bytes;                 /* or it moves `bytes`, which a structure holds that a word points at */
    const void *pointers[POINTERS]; /* passed in place of the first words */
};

typedef uint64_t (*words_func)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                               uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static uint64_t recorded[WORDS];
static unsigned calls;

static uint64_t record_call(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,
                            uint64_t h, uint64_t i, uint64_t j, uint64_t k, uint64_t l, uint64_t m, uint64_t n,
                            uint64_t o, uint64_t p)
{
    const uint64_t words[WORDS] = {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p};

    memcpy(recorded, words, sizeof recorded);
    calls++;
    return 0;
}

/* The upper bits of a narrower word have no meaning. */
static bool is_same_word(uint64_t one, uint64_t other)
{
    return one == other || (uint32_t)one == other || (uint16_t)one == other || (uint8_t)one == other;
}

/* Makes the call, with the vendor's function at `target` replaced; returns how many bytes it counts as. */
static uint64_t call_hook(const char *name, const struct row *row, const uint64_t w[WORDS], void *hook, void **target)
{
    void *before = *target;

    calls = 0;
    facet_flight_accumulated_bytes[0] = 0;
    *target = (void *)record_call;
    uint64_t result = ((words_func)hook)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11],
                                         w[12], w[13], w[14], w[15]);
    *target = before;
    if ((uint32_t)result || calls != 1)
        fail_msg("%s: returns %u after %u calls of the vendor's function, expected 0 after 1", name, (unsigned)result,
                 calls);
    for (unsigned i = 0; i < WORDS; i++)
        if (row->words >> i & 1 && !is_same_word(recorded[i], w[i]))
            fail_msg("%s: word %u is %#llx, expected %#llx", name, i, (unsigned long long)recorded[i],
                     (unsigned long long)w[i]);
    return facet_flight_accumulated_bytes[0] ? facet_flight_accumulated_bytes[0] - FACET_FLIGHT_TRANSFER_FIXED : 0;
}

static void fill_words(const struct row *row, uint64_t words[WORDS])
{
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = i < POINTERS && row->pointers[i] ? (uintptr_t)row->pointers[i] : WORD(i);
}

/* A size that overflows counts no bytes: the vendor refuses it. */
static void check_overflow(const char *name, const struct row *row, void *hook, void **target)
{
    uint64_t words[WORDS];

    if (!row->factors[0] || (row->unit == 1 && !row->factors[1]))
        return;
    fill_words(row, words);
    words[row->factors[0] - 1] = UINT64_MAX / row->unit / (row->factors[1] ? 2 : 1) + 2;
    assert_int_equal(call_hook(name, row, words, hook, target), 0);
}

static const struct row *row_of(const char *name, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(rows[i].name);
        const char *rest = name + length;
        if (strncmp(name, rows[i].name, length) == 0 &&
            (!*rest || strcmp(rest, "_ptsz") == 0 || strcmp(rest, "_ptds") == 0 || strcmp(rest, "_spt") == 0))
            return &rows[i];
    }
    fail_msg("%s: no row has expectations for this call", name);
    return NULL;
}

static void check_transfer(const char *name, const struct row *rows, size_t count, void *hook, void **target)
{
    const struct row *row = row_of(name, rows, count);
    uint64_t words[WORDS], expected = row->bytes;

    if (!row->words)
        return;
    fill_words(row, words);
    if (row->unit)
        expected = row->unit;
    for (unsigned i = 0; i < FACTORS && row->factors[i]; i++)
        expected *= words[row->factors[i] - 1];
    uint64_t counted = call_hook(name, row, words, hook, target);
    if (counted != expected)
        fail_msg("%s: counts as %llu bytes, expected %llu", name, (unsigned long long)counted,
                 (unsigned long long)expected);
    check_overflow(name, row, hook, target);
}

#endif
