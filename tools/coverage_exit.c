/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into every program and library of a build for coverage (tools/coverage), with -Wl,--wrap=_exit.
 *
 * Owns: writing gcc's counters in a process that ends by _exit(), as children of fork() do. Never: is in another build.
 */
void __gcov_dump(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

_Noreturn void __wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}
