/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: opening the facade as TensorFusion's hypervisor does, with RTLD_NOW | RTLD_GLOBAL and each function by its
 * name; its messages; and the providers that it uses. Never: links to the facade.
 */
#ifndef TENSORFUSION_LIBRARY_H
#define TENSORFUSION_LIBRARY_H

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../../integrations/tensorfusion/limiter_abi.h"

/* X(function); each has its own type from the ABI's headers. */
#define TF_FUNCTIONS(X)                                                                                                \
    X(AccelInit)                                                                                                       \
    X(AccelShutdown)                                                                                                   \
    X(AccelGetDeviceCount)                                                                                             \
    X(AccelGetAllDevices)                                                                                              \
    X(AccelGetAllDevicesTopology)                                                                                      \
    X(AccelAssignPartition)                                                                                            \
    X(AccelRemovePartition)                                                                                            \
    X(AccelSetMemHardLimit)                                                                                            \
    X(AccelSetComputeUnitHardLimit)                                                                                    \
    X(AccelSnapshot)                                                                                                   \
    X(AccelResume)                                                                                                     \
    X(AccelGetProcessInformation)                                                                                      \
    X(AccelGetDeviceMetrics)                                                                                           \
    X(AccelGetVendorMountLibs)                                                                                         \
    X(AccelRegisterLogCallback)                                                                                        \
    X(CheckAndRecordMemoryOps)                                                                                         \
    X(CheckAndRecordComputeOps)                                                                                        \
    X(FreezeWorker)                                                                                                    \
    X(ResumeWorker)                                                                                                    \
    X(AutoFreeze)                                                                                                      \
    X(AutoResume)                                                                                                      \
    X(AddWorkerProcess)                                                                                                \
    X(LimiterInit)                                                                                                     \
    X(LimiterShutdown)                                                                                                 \
    X(LimiterCreateWorker)                                                                                             \
    X(LimiterRemoveWorker)                                                                                             \
    X(LimiterRegisterPID)                                                                                              \
    X(LimiterUpdateERL)                                                                                                \
    X(LimiterUpdateHeartbeat)                                                                                          \
    X(LimiterSetPodMemoryUsed)

#define TF_MEMBER(name) __typeof__(name) *name;
struct tf_library {
    TF_FUNCTIONS(TF_MEMBER)
};
#undef TF_MEMBER

static struct tf_library tf;

static inline void *tf_symbol(void *object, const char *name)
{
    void *symbol = dlsym(object, name);

    if (!symbol)
        fail_msg("%s is missing", name);
    return symbol;
}

static inline void tf_open(void)
{
    void *object = dlopen(getenv("FACET_TEST_LIBRARY"), RTLD_NOW | RTLD_GLOBAL);

    if (!object)
        fail_msg("%s", dlerror());
#define TF_RESOLVE(name) *(void **)&tf.name = tf_symbol(object, #name);
    TF_FUNCTIONS(TF_RESOLVE)
#undef TF_RESOLVE
}

/* ---- messages ---- */

struct tf_log {
    pthread_mutex_t lock;
    unsigned count, errors, warnings, unknown; /* messages in all, of two levels, and of unknown levels */
    char last[512], last_warning[512];
};

static struct tf_log tf_log = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void tf_log_message(const char *level, const char *message)
{
    pthread_mutex_lock(&tf_log.lock);
    tf_log.count++;
    if (strcmp(level, "ERROR") == 0)
        tf_log.errors++;
    else if (strcmp(level, "WARN") == 0) {
        tf_log.warnings++;
        snprintf(tf_log.last_warning, sizeof tf_log.last_warning, "%s", message);
    } else if (strcmp(level, "INFO") != 0 && strcmp(level, "DEBUG") != 0)
        tf_log.unknown++;
    snprintf(tf_log.last, sizeof tf_log.last, "%s", message);
    pthread_mutex_unlock(&tf_log.lock);
}

static inline void tf_listen(void)
{
    tf_log.count = tf_log.errors = tf_log.warnings = tf_log.unknown = 0;
    tf_log.last[0] = tf_log.last_warning[0] = '\0';
    assert_int_equal(tf.AccelRegisterLogCallback(tf_log_message), ACCEL_SUCCESS);
}

/* ---- the providers behind the facade ---- */

/* Makes the facade use only the built provider of that name. */
static inline void tf_use_provider(const char *name)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/facet-provider-%s.so", getenv("FACET_LIB_DIR"), name);
    setenv("FACET_PROVIDER_PATH", path, 1);
}

static inline void tf_use_profile(const char *profile)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/providers/sim/profiles/%s.json", getenv("FACET_TEST_SOURCE"), profile);
    setenv("FACET_SIM_PROFILE", path, 1);
}

static inline void tf_init_sim(const char *profile)
{
    tf_use_provider("sim");
    tf_use_profile(profile);
    tf_listen();
    if (tf.AccelInit() != ACCEL_SUCCESS)
        fail_msg("AccelInit: %s", tf_log.last);
}

static inline void tf_end(void)
{
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf_log.unknown, 0);
    assert_int_equal(tf.AccelRegisterLogCallback(NULL), ACCEL_SUCCESS);
}

/* Copies the uuid of the device at `index` to `ret_uuid`, which has UUID_STRING_LENGTH bytes. */
static inline void tf_uuid(size_t index, char *ret_uuid)
{
    ExtendedDeviceInfo *devices = calloc(64, sizeof *devices);
    size_t count = 0;

    assert_non_null(devices);
    assert_int_equal(tf.AccelGetAllDevices(devices, 64, &count), ACCEL_SUCCESS);
    assert_true(index < count);
    memcpy(ret_uuid, devices[index].basic.uuid, UUID_STRING_LENGTH);
    free(devices);
}

/* Makes the facade use the fake provider with the faults `words`, and the provider `second` unless that is NULL. */
static inline void use_fake_provider(const char *words, const char *second)
{
    char path[8192];

    setenv("FACET_PLAYED", words, 1);
    snprintf(path, sizeof path, "%s%s%s", getenv("FACET_TEST_PLAYED"), second ? ":" : "", second ? second : "");
    setenv("FACET_PROVIDER_PATH", path, 1);
    tf_listen();
    if (tf.AccelInit() != ACCEL_SUCCESS)
        fail_msg("AccelInit: %s", tf_log.last);
}

#endif
