/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of what the built kernel compiler makes for devices, as far as it can be seen in the image.
 * Never: needs a device; compares whole images, which another LLVM makes otherwise.
 */
#include "compiling.h"

static unsigned count_of(const struct facet_backend_result *result, const char *text)
{
    const char *at = result->image, *end = at + result->bytes;
    unsigned count = 0;

    while ((at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
        count++;
        at += strlen(text);
    }
    return count;
}

static void compile_with(const char *source, const char *target, const char *argument,
                         struct facet_backend_result *ret_result)
{
    const char *const arguments[] = {argument, NULL};
    struct facet_error error;

    if (compile(source, target, argument ? arguments : NULL, ret_result, &error) != FACET_OK)
        fail_msg("%s %s: %s", target, argument ? argument : "", error.message);
}

/* --- kernels that call kernels ------------------------------------------------------------------------------------ */

static const char two[] = "kernel void one(global float *x) { x[get_global_id(0)] *= 2.0f; }\n"
                          "kernel void both(global float *x, global float *y)\n"
                          "{ one(x); y[get_global_id(0)] = x[get_global_id(0)] + 1; }\n";

static void each_kernel_is_there_once(void **state)
{
    static const char *const levels[] = {"-O0", "-O1", "-O3"};

    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        for (size_t j = 0; j < COUNT(levels); j++) {
            struct facet_backend_result result;

            compile_with(two, targets[i], levels[j], &result);
            if (count_of(&result, "__clang_ocl_kern_imp_"))
                fail_msg("%s %s: a kernel's second copy", targets[i], levels[j]);
            if (strncmp(targets[i], "ptx", 3) == 0) {
                assert_int_equal(count_of(&result, ".entry "), 2);
                assert_int_equal(count_of(&result, ".func "), 0);
                assert_int_equal(count_of(&result, "add.rn.f32"), 3); /* of one, of both, and of one in both */
            }
            backend->clear(&result);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kernel_is_there_once),
    };

    return cmocka_run_group_tests(tests, open_backend, NULL);
}
