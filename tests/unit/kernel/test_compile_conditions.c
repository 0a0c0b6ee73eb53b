/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that a condition of the preprocessor that nests too deep is refused. The only way out of one leaves
 *       behind what clang had under way, so this test has suppressions of its own for the leak sanitizer.
 * Never: does anything else: other leaks would not be seen here.
 */
#include "growing.h"

static void deep_conditions_are_refused(void **state)
{
    struct text source = {0};

    (void)state;
    add_doubling(&source, 22);
    add(&source, "#if M22 1\n#endif\nkernel void k(global int *o) { o[0] = 1; }\n", 1);
    expect(&source, "host", FACET_OUT_OF_RANGE, "nests too deep");
    free(source.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep_conditions_are_refused),
    };

    open_backend(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
