/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the struct of a case of the bench math, and its two implementations. Never: measures; bench.c does. */
#ifndef BENCH_MATH_H
#define BENCH_MATH_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/provider.h>

/* The problem that both implementations compute, with the operands at the same addresses. */
struct bench_case {
    const char *name;
    struct facet_math operation;
    uint64_t operands[4], bytes[4]; /* three inputs at most, the output last; 0: none */
    double multiplications;
};

bool bench_case_find(const char *name, struct bench_case *ret_case);

/* oneDNN called directly, with its own threads, and plain memory in and out. bench_bare_name() returns NULL past the
 * last way; bench_bare_open() returns NULL if oneDNN has no such operation on this processor. */
struct bench_bare;
const char *bench_bare_name(int way);
struct bench_bare *bench_bare_open(const struct bench_case *bench_case, int way, int threads);
void bench_bare_run(struct bench_bare *bare);
void bench_bare_close(struct bench_bare *bare);

#endif
