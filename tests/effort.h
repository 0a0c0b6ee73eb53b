/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of steps or repeats of a random test: its usual number, scaled by FACET_TEST_EFFORT (in percent; 100 if
 * unset). `make test` lowers the effort under sanitizers; `make test-long` raises it and chooses another seed,
 * FACET_TEST_SEED. tests/integration/command/effort.py does this for tests in Python.
 */
#ifndef FACET_TEST_EFFORT_H
#define FACET_TEST_EFFORT_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { EFFORT_USUAL = 100, EFFORT_MOST = 1000000 };

/* A number from the environment. Any value except a number from 0 to `most` ends the test. */
static inline uint32_t effort_variable(const char *name, uint32_t usual, uint32_t most)
{
    const char *text = getenv(name);
    char *end = NULL;
    unsigned long number = text ? strtoul(text, &end, 10) : usual;

    if (text && (*text < '0' || *text > '9' || *end || number > most)) {
        fprintf(stderr, "%s is '%s': expected a number, 0 to %u\n", name, text, most);
        exit(2);
    }
    return (uint32_t)number;
}

/* The number of steps, at least `least`; with fewer a test would prove nothing. Loops call this, so the variable is
 * read only once. */
static inline uint32_t effort(uint32_t usual, uint32_t least)
{
    static _Atomic uint32_t known; /* percent + 1; 0: not read yet */
    uint32_t percent = atomic_load_explicit(&known, memory_order_relaxed);

    if (percent == 0) {
        percent = 1 + effort_variable("FACET_TEST_EFFORT", EFFORT_USUAL, EFFORT_MOST);
        atomic_store_explicit(&known, percent, memory_order_relaxed);
    }
    uint64_t steps = (uint64_t)usual * (percent - 1) / EFFORT_USUAL;
    steps = steps > least ? steps : least;
    return steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX;
}

/* The seed of a test: its usual seed plus FACET_TEST_SEED. */
static inline uint32_t effort_seed(uint32_t usual)
{
    return usual + effort_variable("FACET_TEST_SEED", 0, 2000000000);
}
#endif
