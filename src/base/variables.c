/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table of variables.h. Never: more than one line of help each; the documents have the rest. */
#include "base/variables.h"

#include <stddef.h>
#include <string.h>

#include "base/config.h"

static const struct facet_variable variables[] = {
    {"FACET_ASCEND_ACL", true, true, "path of Huawei's libascendcl.so"},
    {"FACET_ASCEND_DCMI", true, true, "path of Huawei's libdcmi.so"},
    {"FACET_ASCEND_ROOT", true, true, "put before the paths of the files that a container with an Ascend NPU is given"},
    {"FACET_CPU_COMMIT", true, false, "1: provider cpu takes pages from the kernel when they are created"},
    {"FACET_CPU_GROUP_LIMIT", true, false, "milliseconds of a processor after which a work-group on cpu is ended"},
    {"FACET_CPU_MEMORY", true, false, "bytes of memory of device cpu:0; default half of the machine's"},
    {"FACET_CPU_UNITS", true, false, "compute units of device cpu:0; default the processors of the affinity mask"},
    {"FACET_CPU_WATCHDOG", true, false, "milliseconds after which a work-group that still runs on cpu is reported"},
    {"FACET_CUDA_CUBLASLT", true, true, "path of NVIDIA's libcublasLt.so"},
    {"FACET_CUDA_CUDNN", true, true, "path of NVIDIA's libcudnn.so"},
    {"FACET_CUDA_DRIVER", true, true, "path of the libcuda.so.1 that provider cuda opens"},
    {"FACET_CUDA_MPS_CONTROL", true, true, "path of nvidia-cuda-mps-control"},
    {"FACET_CUDA_NVML", true, true, "path of the libnvidia-ml.so.1 that provider cuda opens"},
    {"FACET_CUDA_ROOT", true, true, "put before the path of the file in which NVIDIA's driver lists capabilities"},
    {"FACET_PCI_RULES_DIR", false, false, "folder that 'facet pci persist' writes to, for tests and images"},
    {"FACET_QUIET", false, false, "1: a program that cannot enter its virtual GPU does not say so on standard error"},
    {"FACET_REAL_CUDA", false, false, "path of the driver behind our libcuda.so.1, in programs of CUDA"},
    {"FACET_REAL_HIP", false, false, "path of the runtime behind our libamdhip64.so, in programs of HIP"},
    {"FACET_REAL_NVML", false, false, "path of the library behind our libnvidia-ml.so.1, in programs of CUDA"},
    {"FACET_ROCM_CONFORMANCE_IMAGE", true, true, "path of the kernels with which provider rocm is checked"},
    {"FACET_ROCM_HIP", true, true, "path of the libamdhip64.so that provider rocm opens"},
    {"FACET_ROCM_HIPBLASLT", true, true, "path of AMD's libhipblaslt.so"},
    {"FACET_ROCM_MIOPEN", true, true, "path of AMD's libMIOpen.so"},
    {"FACET_ROCM_PARTITIONS", true, false, "1: provider rocm may cut GPUs into the partitions of a mode"},
    {"FACET_ROCM_ROOT", true, true, "put before the paths in /sys and /dev at which AMD's GPUs are looked for"},
    {"FACET_ROCM_SMI", true, true, "path of AMD's libamd_smi.so"},
    {"FACET_ROCM_STATE", true, false,
     "folder of the files that say whose the partitions are; default the runtime folder"},
    {"FACET_SIM_CLOCK", true, false, "how the clock of simulated devices runs; see facet-sim(7)"},
    {"FACET_SIM_FAULTS", true, false, "faults of simulated devices; see facet-sim(7)"},
    {"FACET_SIM_PROFILE", true, false, "the simulated devices, by the name or path of a profile; see facet-sim(7)"},
    {"FACET_SIM_STATE", true, false, "folder in which simulated devices remember; see facet-sim(7)"},
    {"FACET_SIM_VISIBLE_DEVICES", true, false, "which simulated devices are shown; see facet-sim(7)"},
    {"FACET_TENSORFUSION_IDLE_MS", false, false, "milliseconds after which AutoFreeze freezes, behind TensorFusion"},
    {"FACET_TENSORFUSION_PLACE", false, false,
     "child or process: where providers run behind TensorFusion; default child"},
    {"FACET_VGPU_DIR", false, false, "the segments of the virtual GPUs that a program is in; 'facet run' sets it"},
};

const struct facet_variable *facet_variable_at(uint32_t index)
{
    return index < sizeof variables / sizeof variables[0] ? &variables[index] : NULL;
}

static bool is_named(const char *name, size_t length, const char *wanted)
{
    return strlen(wanted) == length && strncmp(name, wanted, length) == 0;
}

/* "LD_LIBRARY_PATH,ROCM_*": a name with '*' behind it means all that begin so. */
static bool is_listed(const char *list, const char *name, size_t length)
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
    return kept && is_listed(kept, entry, length);
}
