/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: cuInit, its loss in children of fork(), visible devices, and versions. Never: handles a device's work. */
#include "fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entry_points.h"

enum { NOT_STARTED, READY, INHERITED };

static _Atomic int init_state;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t visible[FAKE_DEVICES], visible_count;
static struct fake_part visible_part; /* the MIG device that is visible; its memory_bytes are 0 if GPUs are visible */

/* Like the real driver, refuses all calls of a child whose parent has initialized the driver. */
static void driver_forked(void)
{
    if (atomic_load(&init_state) == READY)
        atomic_store(&init_state, INHERITED);
    pthread_mutex_init(&init_lock, NULL);
}

/* Registered at load: a handler that the first call registers would miss a fork during that call. */
__attribute__((constructor)) static void handle_fork(void)
{
    pthread_atfork(NULL, NULL, driver_forked);
}

/* The device that an item of the list names, by index or by the beginning of its UUID; false when it names none. */
static bool find_visible(const char *item, uint32_t *ret_device)
{
    const struct fake_state *machine = fake_state();
    uint32_t found = 0;
    char text[FAKE_UUID_SIZE], *end;

    if (strncmp(item, "GPU-", 4) != 0) {
        unsigned long index = strtoul(item, &end, 10);
        *ret_device = (uint32_t)index;
        return end != item && !*end && index < machine->device_count;
    }
    for (uint32_t i = 0; i < machine->device_count; i++) {
        fake_uuid_text("GPU-", machine->devices[i].uuid, text);
        if (strncmp(item, text, strlen(item)) == 0) {
            *ret_device = i;
            found++;
        }
    }
    return found == 1;
}

static bool is_visible(uint32_t device)
{
    for (uint32_t i = 0; i < visible_count; i++)
        if (visible[i] == device)
            return true;
    return false;
}

/* The first item that names nothing ends the list; a device that is named twice makes none visible. */
static void read_visible(const char *list)
{
    char copy[1024], *rest = copy, *item;
    uint32_t device = 0;

    visible_count = fake_part_find(list, &visible[0], &visible_part);
    if (visible_count)
        return;
    snprintf(copy, sizeof copy, "%s", list);
    while ((item = strsep(&rest, ",")) && find_visible(item, &device) && visible_count < FAKE_DEVICES) {
        if (is_visible(device)) {
            visible_count = 0;
            return;
        }
        visible[visible_count++] = device;
    }
}

static void make_all_visible(void)
{
    visible_count = fake_state()->device_count;
    for (uint32_t i = 0; i < visible_count; i++)
        visible[i] = i;
}

static CUresult start_driver(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (list)
        read_visible(list);
    else
        make_all_visible();
    if (!visible_count)
        return CUDA_ERROR_NO_DEVICE;
    atomic_store(&init_state, READY);
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags)
{
    CUresult result = CUDA_SUCCESS;

    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&init_lock);
    if (atomic_load(&init_state) == INHERITED)
        result = CUDA_ERROR_NOT_INITIALIZED;
    else if (atomic_load(&init_state) == NOT_STARTED)
        result = start_driver();
    pthread_mutex_unlock(&init_lock);
    return result;
}

CUresult fake_ready(void)
{
    fake_checkpoint_wait();
    return atomic_load_explicit(&init_state, memory_order_acquire) == READY ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult fake_physical(CUdevice device, uint32_t *ret_physical)
{
    if (fake_ready() != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (device < 0 || (uint32_t)device >= visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_physical = visible[device];
    return CUDA_SUCCESS;
}

const struct fake_part *fake_visible_part(void)
{
    return visible_part.memory_bytes ? &visible_part : NULL;
}

uint32_t fake_visible(void)
{
    return visible_count;
}

int fake_not_supported(void)
{
    return fake_ready() == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = (int)fake_state()->driver_version;
    return CUDA_SUCCESS;
}
