/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included first into every file of a build for coverage (tools/coverage).
 *
 * Owns: writing gcc's counters in a process that ends by _exit(), as children of fork() do. Never: is in another build.
 */
#ifndef FACET_COVERAGE_EXIT_H
#define FACET_COVERAGE_EXIT_H
#ifndef __ASSEMBLER__

#include <unistd.h>

#ifdef __cplusplus
extern "C" void __gcov_dump(void);
#else
void __gcov_dump(void);
#endif

__attribute__((noreturn)) static inline void facet_coverage_exit(int status)
{
    __gcov_dump();
    _exit(status);
}
#define _exit facet_coverage_exit

#endif
#endif
