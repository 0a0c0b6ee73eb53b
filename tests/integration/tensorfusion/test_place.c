/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that the facade finds its providers and its host program from any working folder, names the folder in
 * which they are missing, and refuses a folder for segments that all users may write to.
 * Never: starts Facet's daemon.
 */
#include <sys/stat.h>

#include "library.h"

static void files_of_the_installation_are_found_beside_the_library(void **state)
{
    size_t count = 0;

    tf_use_profile("h100");
    unsetenv("FACET_PROVIDER_PATH");
    unsetenv("FACET_LIB_DIR");
    assert_int_equal(chdir("/"), 0);
    tf_listen();
    if (tf.AccelInit() != ACCEL_SUCCESS)
        fail_msg("AccelInit: %s", tf_log.last);
    assert_int_equal(tf.AccelGetDeviceCount(&count), ACCEL_SUCCESS);
    assert_true(count > 0);
    tf_end();
}

static void a_folder_without_the_files_is_named_with_its_variable(void **state)
{
    setenv("FACET_LIB_DIR", "/nonexistent", 1);
    tf_listen();
    assert_int_equal(tf.AccelInit(), ACCEL_ERROR_OPERATION_FAILED);
    assert_true(tf_log.warnings > 0);
    assert_non_null(strstr(tf_log.last_warning, "facet-provider-host is not in /nonexistent (FACET_LIB_DIR)"));
    assert_int_equal(tf.AccelRegisterLogCallback(NULL), ACCEL_SUCCESS);
}

/* TensorFusion mounts the folder for segments with mode 0777. */
static void a_base_writable_by_all_is_refused_and_a_folder_inside_a_sticky_one_is_made(void **state)
{
    char base[] = "/tmp/facet-test-base-XXXXXX", inside[64], lock[72];
    struct stat info;

    assert_non_null(mkdtemp(base));
    assert_int_equal(chmod(base, 0777), 0);
    snprintf(inside, sizeof inside, "%s/facet", base);
    tf_listen();
    assert_int_equal(tf.LimiterInit(base), ACCEL_ERROR_OPERATION_FAILED);
    assert_non_null(strstr(tf_log.last, "may be written by any user (mode 0777)"));
    assert_int_equal(tf.LimiterInit(inside), ACCEL_ERROR_OPERATION_FAILED);
    assert_non_null(strstr(tf_log.last, "expected 'chmod +t'"));
    assert_int_equal(stat(inside, &info), -1);
    assert_int_equal(chmod(base, 01777), 0);
    if (tf.LimiterInit(inside) != ACCEL_SUCCESS)
        fail_msg("LimiterInit: %s", tf_log.last);
    assert_int_equal(stat(inside, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    assert_int_equal(tf.LimiterShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelRegisterLogCallback(NULL), ACCEL_SUCCESS);
    snprintf(lock, sizeof lock, "%s/.lock", inside);
    unlink(lock);
    assert_int_equal(rmdir(inside), 0);
    assert_int_equal(rmdir(base), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_the_installation_are_found_beside_the_library),
        cmocka_unit_test(a_folder_without_the_files_is_named_with_its_variable),
        cmocka_unit_test(a_base_writable_by_all_is_refused_and_a_folder_inside_a_sticky_one_is_made),
    };

    tf_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
