/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table of variables.h. Never: gives more than one line of help for each; man pages have the details. */
#include "base/variables.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/config.h"

/* The last members of a variable's line. */
#define TEXT             FACET_VARIABLE_TEXT, 0, 0
#define SWITCH           FACET_VARIABLE_SWITCH, 0, 1
#define FOLDER           FACET_VARIABLE_FOLDER, 0, 0
#define LIBRARY          FACET_VARIABLE_LIBRARY, 0, 0
#define SIMULATION       FACET_VARIABLE_SIMULATION, 0, 0
#define PLACE            FACET_VARIABLE_PLACE, 0, 0
#define NUMBER(from, to) FACET_VARIABLE_NUMBER, (from), (to)

static const struct facet_variable variables[] = {
    {"FACET_ASCEND_ACL", true, true, "path of Huawei's libascendcl.so", TEXT},
    {"FACET_ASCEND_DCMI", true, true, "path of Huawei's libdcmi.so", TEXT},
    {"FACET_ASCEND_ROOT", true, true, "put before the paths of the files that a container with an Ascend NPU is given",
     TEXT},
    {"FACET_CPU_COMMIT", true, false, "1: provider cpu takes pages from the kernel when they are created", SWITCH},
    {"FACET_CPU_GROUP_LIMIT", true, false, "milliseconds of a processor after which a work-group on cpu is ended",
     NUMBER(1, FACET_VARIABLE_MS_MAX)},
    {"FACET_CPU_MEMORY", true, false, "bytes of memory of device cpu:0; default half of the machine's",
     NUMBER(FACET_VARIABLE_MEMORY_MIN, FACET_VARIABLE_MEMORY_MAX)},
    {"FACET_CPU_UNITS", true, false, "compute units of device cpu:0; default the processors of the affinity mask",
     NUMBER(1, FACET_VARIABLE_UNITS_MAX)},
    {"FACET_CPU_WATCHDOG", true, false, "milliseconds after which a work-group that still runs on cpu is reported",
     NUMBER(1, FACET_VARIABLE_MS_MAX)},
    {"FACET_CUDA_CUBLASLT", true, true, "path of NVIDIA's libcublasLt.so", TEXT},
    {"FACET_CUDA_CUDNN", true, true, "path of NVIDIA's libcudnn.so", TEXT},
    {"FACET_CUDA_DRIVER", true, true, "path of the libcuda.so.1 that provider cuda opens", TEXT},
    {"FACET_CUDA_MPS_CONTROL", true, true, "path of nvidia-cuda-mps-control", TEXT},
    {"FACET_CUDA_NVML", true, true, "path of the libnvidia-ml.so.1 that provider cuda opens", TEXT},
    {"FACET_CUDA_ROOT", true, true, "put before the path of the file in which NVIDIA's driver lists capabilities",
     TEXT},
    {"FACET_PCI_RULES_DIR", false, false, "folder that 'facet pci persist' writes to, for tests and images", FOLDER},
    {"FACET_QUIET", false, false, "1: a program that cannot enter its virtual GPU does not say so on standard error",
     SWITCH},
    {"FACET_REAL_CUDA", false, false, "path of the driver behind our libcuda.so.1, in programs of CUDA", LIBRARY},
    {"FACET_REAL_HIP", false, false, "path of the runtime behind our libamdhip64.so, in programs of HIP", LIBRARY},
    {"FACET_REAL_NVML", false, false, "path of the library behind our libnvidia-ml.so.1, in programs of CUDA", LIBRARY},
    {"FACET_ROCM_CONFORMANCE_IMAGE", true, true, "path of the kernels with which provider rocm is checked", TEXT},
    {"FACET_ROCM_HIP", true, true, "path of the libamdhip64.so that provider rocm opens", TEXT},
    {"FACET_ROCM_HIPBLASLT", true, true, "path of AMD's libhipblaslt.so", TEXT},
    {"FACET_ROCM_MIOPEN", true, true, "path of AMD's libMIOpen.so", TEXT},
    {"FACET_ROCM_PARTITIONS", true, false, "1: provider rocm may cut GPUs into the partitions of a mode", SWITCH},
    {"FACET_ROCM_ROOT", true, true, "put before the paths in /sys and /dev at which AMD's GPUs are looked for", TEXT},
    {"FACET_ROCM_SMI", true, true, "path of AMD's libamd_smi.so", TEXT},
    {"FACET_ROCM_STATE", true, false,
     "folder of the files that say whose the partitions are; default the runtime folder", FOLDER},
    {"FACET_SIM_CLOCK", true, false, "how the clock of simulated devices runs; see facet-sim(7)", SIMULATION},
    {"FACET_SIM_FAULTS", true, false, "faults of simulated devices; see facet-sim(7)", SIMULATION},
    {"FACET_SIM_PROFILE", true, false, "the simulated devices, by the name or path of a profile; see facet-sim(7)",
     SIMULATION},
    {"FACET_SIM_STATE", true, false, "folder in which simulated devices remember; see facet-sim(7)", FOLDER},
    {"FACET_SIM_VISIBLE_DEVICES", true, false, "which simulated devices are shown; see facet-sim(7)", SIMULATION},
    {"FACET_TENSORFUSION_IDLE_MS", false, false, "milliseconds after which AutoFreeze freezes, behind TensorFusion",
     NUMBER(1, FACET_VARIABLE_MS_MAX)},
    {"FACET_TENSORFUSION_PLACE", false, false,
     "child or process: where providers run behind TensorFusion; default child", PLACE},
    {"FACET_VGPU_DIR", false, false, "the segments of the virtual GPUs that a program is in; 'facet run' sets it",
     TEXT},
};

const struct facet_variable *facet_variable_at(uint32_t index)
{
    return index < sizeof variables / sizeof variables[0] ? &variables[index] : NULL;
}

static enum facet_status check_number(const struct facet_variable *variable, const char *text,
                                      struct facet_error *error)
{
    char *end;

    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    bool is_number = *text >= '0' && *text <= '9' && !*end;

    if (is_number && !errno && value >= variable->min && value <= variable->max)
        return FACET_OK;
    return facet_error_argument(error, is_number ? FACET_OUT_OF_RANGE : FACET_INVALID_ARGUMENT, variable->name,
                                "%s '%.64s': expected a number from %" PRIu64 " to %" PRIu64, variable->name, text,
                                variable->min, variable->max);
}

/* The dynamic linker searches for a name without '/'. */
static enum facet_status check_path(const struct facet_variable *variable, const char *text, struct facet_error *error)
{
    struct stat info;
    bool is_folder = variable->form == FACET_VARIABLE_FOLDER, is_there = stat(text, &info) == 0;

    if (!is_there && errno != ENOENT)
        return facet_error_argument(error, FACET_NOT_FOUND, variable->name, "%s '%.200s': %s", variable->name, text,
                                    strerror(errno));
    if (!is_there && !is_folder && strchr(text, '/'))
        return facet_error_argument(error, FACET_NOT_FOUND, variable->name, "%s '%.200s': no such file", variable->name,
                                    text);
    if (is_there && is_folder && !S_ISDIR(info.st_mode))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, variable->name, "%s '%.200s': expected a folder",
                                    variable->name, text);
    return FACET_OK;
}

static enum facet_status check_words(const struct facet_variable *variable, const char *text, const char *one,
                                     const char *other, struct facet_error *error)
{
    if (strcmp(text, one) == 0 || strcmp(text, other) == 0)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, variable->name, "%s '%.64s': expected %s or %s",
                                variable->name, text, one, other);
}

enum facet_status facet_variable_check(const struct facet_variable *variable, const char *text,
                                       struct facet_error *error)
{
    if (!text || !*text)
        return FACET_OK;
    switch (variable->form) {
    case FACET_VARIABLE_SWITCH:
        return check_words(variable, text, "0", "1", error);
    case FACET_VARIABLE_NUMBER:
        return check_number(variable, text, error);
    case FACET_VARIABLE_PLACE:
        return check_words(variable, text, "child", "process", error);
    case FACET_VARIABLE_FOLDER:
        return check_path(variable, text, error);
    case FACET_VARIABLE_TEXT:
    case FACET_VARIABLE_LIBRARY:
    case FACET_VARIABLE_SIMULATION:
        break;
    }
    return variable->is_path ? check_path(variable, text, error) : FACET_OK;
}

static bool is_named(const char *name, size_t length, const char *wanted)
{
    return strlen(wanted) == length && strncmp(name, wanted, length) == 0;
}

/* A list is like "LD_LIBRARY_PATH,ROCM_*". A name with '*' behind it means all names that begin with it. */
static bool is_in_list(const char *list, const char *name, size_t length)
{
    for (size_t part; *list; list += part + (list[part] == ',')) {
        part = strcspn(list, ",");
        if (part && list[part - 1] == '*' && length >= part - 1 && strncmp(list, name, part - 1) == 0)
            return true;
        if (part == length && strncmp(list, name, length) == 0)
            return true;
    }
    return false;
}

/* Variables that Facet sets in the containers of a reservation; the last two are for Facet's own tests. */
static const char container_variables[] =
    "FACET_GLOBAL_DEVICE_IDS,FACET_HANDLE,FACET_MEMORY_LIMITS,FACET_OWNER,FACET_RESERVATION,"
    "FACET_RESOURCE_VIRTUALIZED,FACET_VGPU_DIR_*,FACET_BUILD_DIR,FACET_TEST_*";

bool facet_variable_is_unknown(const char *entry)
{
    static const char prefix[] = "FACET_";
    size_t length = strcspn(entry, "=");
    bool known = strncmp(entry, prefix, sizeof prefix - 1) != 0 || is_in_list(container_variables, entry, length);

    for (uint32_t i = 0; !known && i < sizeof variables / sizeof variables[0]; i++)
        known = is_named(entry, length, variables[i].name);
    for (uint32_t id = 0; !known && facet_config_setting(id); id++)
        known = is_named(entry, length, facet_config_setting(id)->variable);
    return !known;
}

bool facet_variable_is_of_devices(const char *entry)
{
    static const enum facet_setting_id settings[] = {FACET_SETTING_LIB_DIR, FACET_SETTING_PROVIDER_PATH,
                                                     FACET_SETTING_KEEP_ENV};
    size_t length = strcspn(entry, "=");
    const char *kept = facet_config_text(FACET_SETTING_KEEP_ENV);

    for (uint32_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (variables[i].of_devices && is_named(entry, length, variables[i].name))
            return true;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (is_named(entry, length, facet_config_setting(settings[i])->variable))
            return true;
    return kept && is_in_list(kept, entry, length);
}
