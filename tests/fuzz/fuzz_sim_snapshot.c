/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing the bytes of a snapshot through snapshot.resume: a refusal leaves no memory in use, and an accepted
 * snapshot can be saved, resumed and closed again.
 */
#include <sys/mman.h>
#include <unistd.h>

#include <facet/provider.h>

#include "fuzz.h"

static const struct facet_provider *provider;
static struct facet_provider_instance *instance;

static void open_once(void)
{
    struct facet_error error = {0};
    const struct facet_provider_host host = {sizeof host, FACET_PROVIDER_ABI_MAJOR, FACET_PROVIDER_ABI_MINOR, &error};

    if (instance)
        return;
    setenv("FACET_SIM_PROFILE", "h100", 1);
    setenv("FACET_SIM_CLOCK", "stepped", 1);
    unsetenv("FACET_SIM_STATE");
    unsetenv("FACET_SIM_FAULTS");
    FUZZ_ASSERT(facet_provider_entry(&host, &provider) == FACET_OK);
    FUZZ_ASSERT(provider->device->open(&instance, &error) == FACET_OK);
}

static uint64_t used_bytes(void)
{
    struct facet_device_metrics metrics = {.size = sizeof metrics};

    FUZZ_ASSERT(provider->metrics->device(instance, 0, &metrics, NULL) == FACET_OK);
    return metrics.memory_used_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    struct facet_error error = {0};

    open_once();
    FUZZ_ASSERT(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
    enum facet_status status = provider->snapshot->resume(instance, 0, "a", fd, &error);
    if (status == FACET_OK) {
        FUZZ_ASSERT(provider->snapshot->snapshot(instance, 0, NULL, -1, &error) == FACET_OK);
        FUZZ_ASSERT(provider->snapshot->resume(instance, 0, NULL, -1, &error) == FACET_OK);
        provider->device->close(instance);
        instance = NULL;
    } else {
        FUZZ_ASSERT(error.status == status && error.message[0]);
        FUZZ_ASSERT(used_bytes() == 0);
    }
    close(fd);
    return 0;
}
