/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: mapping the segments and resolving the devices. Never: opens a segment for writing. */
#include "vgpu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "hooks.h"
#include "limiter/given.h"
#include "limiter/slot.h"
#include "limiter/tenant.h"

#define GPU_PREFIX "GPU-"
#define MIG_PREFIX "MIG-"

static char folders[FACET_NVML_VGPUS * 1024]; /* FACET_VGPU_DIR */
static bool is_tenant;
static pthread_once_t environment_once = PTHREAD_ONCE_INIT;

pthread_mutex_t facet_nvml_lock = PTHREAD_MUTEX_INITIALIZER;

static struct facet_nvml_vgpu vgpus[FACET_NVML_VGPUS];
static _Atomic unsigned vgpu_count; /* 0 until all are mapped */

static void lock_vgpus(void)
{
    pthread_mutex_lock(&facet_nvml_lock);
}

static void unlock_vgpus(void)
{
    pthread_mutex_unlock(&facet_nvml_lock);
}

/* A list that is too long is cut. Its last folder then does not exist, so attaching fails, as with any wrong list, and
 * as with the empty one of a container that was given several vGPUs. */
static void read_environment(void)
{
    const char *list = getenv(FACET_ENV_VGPU_DIR);

    is_tenant = list != NULL;
    if (list && facet_given_check(list, NULL) == FACET_OK)
        strncpy(folders, list, sizeof folders - 1);
    pthread_atfork(lock_vgpus, unlock_vgpus, unlock_vgpus);
}

bool facet_nvml_is_tenant(void)
{
    pthread_once(&environment_once, read_environment);
    return is_tenant;
}

static enum facet_status map_page(int dir_fd, const char *name, size_t size, void **ret_address, struct stat *ret_stat)
{
    FACET_CLEANUP_FD int fd = -1;

    enum facet_status status = facet_segment_map(dir_fd, name, false, size, ret_address, &size, &fd, NULL);
    if (status == FACET_OK && fstat(fd, ret_stat) != 0) {
        munmap(*ret_address, size);
        status = facet_error_errno(NULL, errno, "looking at segment file '%s'", name);
    }
    return status;
}

static bool map_vgpu(struct facet_nvml_vgpu *vgpu)
{
    FACET_CLEANUP_FD int dir_fd = open(vgpu->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    void *policy = NULL, *usage = NULL;
    struct stat policy_stat, usage_stat;

    if (dir_fd < 0)
        return false;
    if (map_page(dir_fd, "policy", sizeof *vgpu->policy, &policy, &policy_stat) == FACET_OK &&
        map_page(dir_fd, "usage", sizeof *vgpu->usage, &usage, &usage_stat) == FACET_OK &&
        facet_policy_check(policy, sizeof *vgpu->policy, "policy", NULL) == FACET_OK &&
        facet_usage_check(usage, sizeof *vgpu->usage, "usage", NULL) == FACET_OK) {
        vgpu->policy = policy;
        vgpu->usage = usage;
        vgpu->usage_device = usage_stat.st_dev;
        vgpu->usage_inode = usage_stat.st_ino;
        return true;
    }
    if (policy)
        munmap(policy, sizeof *vgpu->policy);
    if (usage)
        munmap(usage, sizeof *vgpu->usage);
    return false;
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Refuses the same vGPUs as the driver's interposer: those of another vendor, and those named twice. */
static bool is_usable(unsigned index)
{
    const char *address = vgpus[index].policy->device.address;

    for (unsigned i = 0; i < index; i++)
        if (strcmp(vgpus[i].policy->device.address, address) == 0)
            return false;
    return begins_with(address, GPU_PREFIX) || begins_with(address, MIG_PREFIX);
}

/* Copies the folder that begins at `at`; returns the beginning of the next one, NULL when there is none. */
static const char *next_folder(const char *at, char dir[1024])
{
    size_t length = strcspn(at, ":");

    snprintf(dir, 1024, "%.*s", (int)(length < 1023 ? length : 1023), at);
    return at[length] ? at + length + 1 : NULL;
}

uint64_t facet_nvml_device_time(const struct facet_nvml_vgpu *vgpu, uint64_t measured_ns)
{
    const struct facet_device_time time = facet_policy_device_time(vgpu->policy);

    return facet_device_time_published(&time, measured_ns, facet_clock_now_ns());
}

static void begin_period(struct facet_nvml_vgpu *vgpu)
{
    struct facet_usage_totals totals;

    facet_usage_sum(vgpu->usage, &totals);
    vgpu->period.busy_ns = facet_nvml_device_time(vgpu, totals.busy_ns);
    vgpu->period.start_ns = facet_clock_now_ns();
}

/* If one segment fails, the segments that were mapped before it stay mapped for the next attempt. */
static bool map_all(void)
{
    unsigned count = 0;

    for (const char *at = folders; at; count++) {
        struct facet_nvml_vgpu *vgpu = &vgpus[count];

        if (count == FACET_NVML_VGPUS)
            return false;
        at = next_folder(at, vgpu->dir);
        if ((!vgpu->usage && !map_vgpu(vgpu)) || !is_usable(count))
            return false;
        begin_period(vgpu);
    }
    atomic_store_explicit(&vgpu_count, count, memory_order_release);
    return true;
}

/* Looks the device up by UUID each time, because it may have gone since. */
static nvmlReturn_t resolve_vgpu(struct facet_nvml_vgpu *vgpu)
{
    const char *address = vgpu->policy->device.address;
    nvmlDevice_t found, gpu;
    nvmlReturn_t result = facet_nvml_library.nvmlDeviceGetHandleByUUID(address, &found);

    if (result != NVML_SUCCESS)
        return result;
    gpu = found;
    if (begins_with(address, MIG_PREFIX)) {
        result = facet_nvml_library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle
                     ? facet_nvml_library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(found, &gpu)
                     : NVML_ERROR_NOT_SUPPORTED;
        if (result == NVML_SUCCESS)
            atomic_store(&vgpu->mig, found);
    }
    if (result == NVML_SUCCESS)
        atomic_store(&vgpu->gpu, gpu);
    return result;
}

nvmlReturn_t facet_nvml_attach(void)
{
    int saved = errno;

    lock_vgpus();
    bool attached = atomic_load(&vgpu_count) != 0 || map_all();
    unlock_vgpus();
    for (unsigned i = 0; i < atomic_load(&vgpu_count); i++)
        resolve_vgpu(&vgpus[i]); /* a device that is not found now is looked up again by its index */
    errno = saved;
    return attached ? NVML_SUCCESS : NVML_ERROR_NOT_READY;
}

static unsigned count_vgpus(void)
{
    return atomic_load_explicit(&vgpu_count, memory_order_acquire);
}

/* Whether an earlier vGPU is on the same GPU, which is then counted already. */
static bool shares_earlier_gpu(unsigned index)
{
    nvmlDevice_t gpu = atomic_load(&vgpus[index].gpu);

    for (unsigned i = 0; gpu && i < index; i++)
        if (atomic_load(&vgpus[i].gpu) == gpu)
            return true;
    return false;
}

unsigned facet_nvml_count(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < count_vgpus(); i++)
        count += !shares_earlier_gpu(i);
    return count;
}

nvmlReturn_t facet_nvml_device(unsigned index, nvmlDevice_t *ret_device)
{
    for (unsigned i = 0; i < count_vgpus(); i++) {
        if (shares_earlier_gpu(i) || index-- != 0)
            continue;
        nvmlReturn_t result = resolve_vgpu(&vgpus[i]);
        if (result == NVML_SUCCESS)
            *ret_device = atomic_load(&vgpus[i].gpu);
        return result;
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

bool facet_nvml_index(nvmlDevice_t device, unsigned *ret_index)
{
    unsigned index = 0;

    for (unsigned i = 0; i < count_vgpus(); i++) {
        if (shares_earlier_gpu(i))
            continue;
        if (atomic_load(&vgpus[i].gpu) == device) {
            *ret_index = index;
            return true;
        }
        index++;
    }
    return false;
}

bool facet_nvml_mig_device(nvmlDevice_t gpu, unsigned index, nvmlDevice_t *ret_device, nvmlReturn_t *ret_result)
{
    *ret_result = NVML_ERROR_NOT_FOUND;
    for (unsigned i = 0; i < count_vgpus(); i++) {
        nvmlDevice_t mig = atomic_load(&vgpus[i].mig);

        if (atomic_load(&vgpus[i].gpu) != gpu)
            continue;
        if (!mig)
            return false;
        if (index-- == 0) {
            *ret_device = mig;
            *ret_result = NVML_SUCCESS;
            break;
        }
    }
    return true;
}

struct facet_nvml_vgpu *facet_nvml_vgpu(nvmlDevice_t device)
{
    for (unsigned i = 0; device && i < count_vgpus(); i++)
        if (atomic_load(&vgpus[i].mig) == device || atomic_load(&vgpus[i].gpu) == device)
            return &vgpus[i];
    return NULL;
}

struct facet_nvml_vgpu *facet_nvml_owner(nvmlDevice_t device)
{
    struct facet_nvml_vgpu *vgpu = facet_nvml_vgpu(device);
    unsigned is_mig = 0;
    nvmlDevice_t gpu;

    if (vgpu || !facet_nvml_library.nvmlDeviceIsMigDeviceHandle ||
        !facet_nvml_library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle ||
        facet_nvml_library.nvmlDeviceIsMigDeviceHandle(device, &is_mig) != NVML_SUCCESS || !is_mig ||
        facet_nvml_library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device, &gpu) != NVML_SUCCESS)
        return vgpu;
    vgpu = facet_nvml_vgpu(gpu);
    return vgpu && !atomic_load(&vgpu->mig) ? vgpu : NULL;
}

/* Opens the file anew each time: the program could close a descriptor that is kept, and reuse its number. */
static int open_usage(const struct facet_nvml_vgpu *vgpu)
{
    char path[sizeof vgpu->dir + sizeof "/usage"];
    struct stat status;

    snprintf(path, sizeof path, "%s/usage", vgpu->dir);
    FACET_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_dev != vgpu->usage_device || status.st_ino != vgpu->usage_inode)
        return -1;
    return FACET_TAKE_FD(fd);
}

/* If the folder was removed with its vGPU, no lock can be checked: every slot with a pid counts as a live process. */
unsigned facet_nvml_processes(const struct facet_nvml_vgpu *vgpu, struct facet_nvml_process list[FACET_SEGMENT_SLOTS])
{
    FACET_CLEANUP_FD int fd = open_usage(vgpu);
    unsigned count = 0;

    for (unsigned i = 0, used = atomic_load(&vgpu->usage->slots_used); i < used && i < FACET_SEGMENT_SLOTS; i++) {
        const struct facet_slot *slot = &vgpu->usage->slots[i];
        uint32_t pid = atomic_load(&slot->pid);

        if (pid && (fd < 0 || facet_slot_locked(fd, FACET_SLOT_LOCK_OFFSET(i), 1)))
            list[count++] = (struct facet_nvml_process){.pid = pid, .memory_bytes = facet_slot_memory(slot)};
    }
    return count;
}

uint64_t facet_nvml_memory(const struct facet_nvml_vgpu *vgpu)
{
    uint64_t sum = facet_usage_memory(vgpu->usage), living = 0;
    FACET_CLEANUP_FD int fd = sum ? open_usage(vgpu) : -1;

    if (fd < 0)
        return sum;
    for (unsigned i = 0; i < FACET_SEGMENT_SLOTS; i++) {
        uint64_t bytes = facet_slot_memory(&vgpu->usage->slots[i]);

        if (bytes && facet_slot_locked(fd, FACET_SLOT_LOCK_OFFSET(i), 1))
            living = living > UINT64_MAX - bytes ? UINT64_MAX : living + bytes;
    }
    return living;
}

bool facet_nvml_find_process(uint32_t pid, const struct facet_nvml_process *list, unsigned count, unsigned *ret_index)
{
    for (unsigned i = 0; i < count; i++)
        if (list[i].pid == pid) {
            *ret_index = i;
            return true;
        }
    return false;
}
