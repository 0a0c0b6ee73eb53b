/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a skipped case in TAP's form. cmocka before 1.1.6 writes "not ok 3 # SKIP name", which Meson takes for a
 * failure.
 *
 * Owns: print_message(), through which cmocka writes all its output; it replaces cmocka's in every test program.
 * Never: changes any other line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char SKIPPED[] = "not ok %u # SKIP";

__attribute__((visibility("default"))) void print_message(const char *format, ...)
{
    va_list arguments;

    if (strncmp(format, SKIPPED, sizeof SKIPPED - 1) == 0)
        format += strlen("not ");
    va_start(arguments, format);
    vprint_message(format, arguments);
    va_end(arguments);
}
