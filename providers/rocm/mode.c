/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the two modes of a GPU, of its compute dies and of its memory: reading and interpreting both, and setting the
 * first.
 * Never: sets the mode of the memory, or passes a mode's number to a release of AMD SMI that may number modes
 * differently. Then it writes the name into the kernel's file.
 */
#include <errno.h>

#include "rocm.h"
#include "sysfs.h"

static const struct {
    const char *name;
    int number;
    uint32_t parts; /* 0: one for each die */
} modes_known[] = {
    {"SPX", AMDSMI_COMPUTE_PARTITION_SPX, 1}, {"DPX", AMDSMI_COMPUTE_PARTITION_DPX, 2},
    {"TPX", AMDSMI_COMPUTE_PARTITION_TPX, 3}, {"QPX", AMDSMI_COMPUTE_PARTITION_QPX, 4},
    {"CPX", AMDSMI_COMPUTE_PARTITION_CPX, 0},
};

#define MODES (sizeof modes_known / sizeof *modes_known)

static bool is_known(const char *name)
{
    for (size_t i = 0; i < MODES; i++)
        if (strcmp(modes_known[i].name, name) == 0)
            return true;
    return false;
}

static bool read_mode(const struct rocm_gpu *gpu, amdsmi_status_t (*ask)(amdsmi_processor_handle, char *, uint32_t),
                      const char *file, char mode[ROCM_MODE_SIZE])
{
    mode[0] = '\0';
    if (gpu->handle && ask && ask(gpu->handle, mode, ROCM_MODE_SIZE) == AMDSMI_STATUS_SUCCESS && mode[0])
        return true;
    return rocm_gpu_line(gpu->pci, file, mode, ROCM_MODE_SIZE) && mode[0];
}

bool rocm_modes_read(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct rocm_modes *ret_modes)
{
    struct rocm_modes modes;

    if (!read_mode(gpu, smi->amdsmi_get_gpu_compute_partition, "current_compute_partition", modes.compute) ||
        !read_mode(gpu, smi->amdsmi_get_gpu_memory_partition, "current_memory_partition", modes.memory) ||
        !is_known(modes.compute) || strncmp(modes.memory, "NPS", 3) != 0)
        return false;
    *ret_modes = modes;
    return true;
}

/* The kernel's list is one line: "SPX, DPX, QPX, CPX". */
uint32_t rocm_modes_available(const struct rocm_gpu *gpu, char modes[][ROCM_MODE_SIZE], uint32_t most)
{
    char line[128], *rest = line, *word;
    uint32_t count = 0;

    if (!rocm_gpu_line(gpu->pci, "available_compute_partition", line, sizeof line))
        return 0;
    while (count < most && (word = strtok_r(rest, ", ", &rest)))
        if (is_known(word)) {
            FACET_KIT_TEXT(modes[count], word);
            count++;
        }
    return count;
}

uint32_t rocm_mode_parts(const char *mode, uint32_t dies)
{
    for (size_t i = 0; i < MODES; i++)
        if (strcmp(modes_known[i].name, mode) == 0)
            return modes_known[i].parts ? modes_known[i].parts : dies;
    return 0;
}

static enum facet_status refuse_mode(struct facet_error *error, const struct rocm_gpu *gpu, const char *mode,
                                     enum facet_status status, const char *reason)
{
    if (status == FACET_BUSY)
        return facet_kit_fail(error, FACET_BUSY, "%s cannot be put into mode %s while a process uses it", gpu->pci,
                              mode);
    if (status == FACET_PERMISSION)
        return facet_kit_fail(error, FACET_PERMISSION, "%s: only an administrator may set its mode", gpu->pci);
    return facet_kit_fail(error, status, "%s cannot be put into mode %s: %.160s", gpu->pci, mode, reason);
}

static enum facet_status set_by_kernel(const struct rocm_gpu *gpu, const char *mode, struct facet_error *error)
{
    if (rocm_gpu_write(gpu->pci, "current_compute_partition", mode))
        return FACET_OK;
    switch (errno) {
    case EBUSY:
        return refuse_mode(error, gpu, mode, FACET_BUSY, "");
    case EACCES:
    case EPERM:
        return refuse_mode(error, gpu, mode, FACET_PERMISSION, "");
    default:
        return refuse_mode(error, gpu, mode, FACET_BAD_STATE, strerror(errno));
    }
}

enum facet_status rocm_mode_set(const struct rocm_smi *smi, const struct rocm_gpu *gpu, const char *mode,
                                struct facet_error *error)
{
    int number = 0;

    if (!gpu->handle || !smi->amdsmi_set_gpu_compute_partition)
        return set_by_kernel(gpu, mode, error);
    for (size_t i = 0; i < MODES; i++)
        number = strcmp(modes_known[i].name, mode) == 0 ? modes_known[i].number : number;
    amdsmi_status_t result = smi->amdsmi_set_gpu_compute_partition(gpu->handle, number);
    enum facet_status status = rocm_smi_status(result);
    if (status == FACET_OK)
        return FACET_OK;
    /* The same call may succeed in another state of the GPU and its memory. */
    if (status == FACET_INTERNAL || status == FACET_UNSUPPORTED)
        status = FACET_BAD_STATE;
    char reason[64];
    snprintf(reason, sizeof reason, "amdsmi_set_gpu_compute_partition: %u", (unsigned)result);
    return refuse_mode(error, gpu, mode, status, reason);
}
