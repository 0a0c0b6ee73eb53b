/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual GPUs as a library, measured. bench/vgpu.py drives it.
 *
 * usage: bench_vgpu many COUNT
 *        bench_vgpu shares SECONDS LENGTHS REQUEST_MILLI...
 *        bench_vgpu priority ROUNDS LENGTHS
 */
#include "common.h"

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int arguments;
        int (*run)(char **arguments);
    } parts[] = {{"many", 1, many_main}, {"shares", 3, shares_main}, {"priority", 2, priority_main}};

    for (size_t i = 0; argc > 1 && i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(argv[1], parts[i].name) == 0 && argc - 2 >= parts[i].arguments)
            return parts[i].run(argv + 2);
    fputs("usage: bench_vgpu many COUNT | shares SECONDS LENGTHS REQUEST_MILLI... | priority ROUNDS LENGTHS\n", stderr);
    return 2;
}
