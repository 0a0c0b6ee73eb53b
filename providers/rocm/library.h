/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AMD SMI, opened at run time.
 *
 * Owns: the table of its functions, its release, and the translation of its results.
 * Never: treats a broken library as an absent one, or passes a struct to a release with another layout. With such a
 * release, only functions that are the same in every release are used (vendor/amdsmi).
 */
#ifndef FACET_ROCM_LIBRARY_H
#define FACET_ROCM_LIBRARY_H

#include <facet/error.h>

#include "vendor/amdsmi/amdsmi.h"

/* The library is useless if one of these is missing. */
#define ROCM_SMI_NEEDED(X)                                                                                             \
    X(amdsmi_init)                                                                                                     \
    X(amdsmi_shut_down)                                                                                                \
    X(amdsmi_get_socket_handles)                                                                                       \
    X(amdsmi_get_processor_handles)                                                                                    \
    X(amdsmi_get_gpu_device_bdf)

/* Functions that may be missing: NULL where the installed library lacks one. */
#define ROCM_SMI_OPTIONAL(X)                                                                                           \
    X(amdsmi_status_code_to_string)                                                                                    \
    X(amdsmi_get_gpu_device_uuid)                                                                                      \
    X(amdsmi_get_gpu_memory_total)                                                                                     \
    X(amdsmi_get_gpu_memory_usage)                                                                                     \
    X(amdsmi_get_energy_count)                                                                                         \
    X(amdsmi_topo_get_numa_node_number)                                                                                \
    X(amdsmi_topo_get_link_type)                                                                                       \
    X(amdsmi_init_gpu_event_notification)                                                                              \
    X(amdsmi_set_gpu_event_notification_mask)                                                                          \
    X(amdsmi_get_gpu_event_notification)                                                                               \
    X(amdsmi_stop_gpu_event_notification)                                                                              \
    X(amdsmi_get_gpu_compute_partition)                                                                                \
    X(amdsmi_get_gpu_memory_partition)

/* Functions with structs: NULL also in a release before VENDOR_AMDSMI_STRUCTS. */
#define ROCM_SMI_STRUCTS(X)                                                                                            \
    X(amdsmi_get_gpu_asic_info)                                                                                        \
    X(amdsmi_get_gpu_driver_info)                                                                                      \
    X(amdsmi_get_gpu_kfd_info)                                                                                         \
    X(amdsmi_get_power_info)                                                                                           \
    X(amdsmi_get_clock_info)                                                                                           \
    X(amdsmi_get_temp_metric)                                                                                          \
    X(amdsmi_get_gpu_total_ecc_count)                                                                                  \
    X(amdsmi_get_gpu_process_list)                                                                                     \
    X(amdsmi_set_gpu_compute_partition)

struct rocm_smi {
    void *library;    /* NULL: there is none */
    unsigned release; /* the number in its soname; 0: unknown */
#define ROCM_FIELD(symbol) __typeof__(&symbol) symbol;
    ROCM_SMI_NEEDED(ROCM_FIELD)
    ROCM_SMI_OPTIONAL(ROCM_FIELD)
    ROCM_SMI_STRUCTS(ROCM_FIELD)
#undef ROCM_FIELD
};

/* A call of a function that may be missing: ROCM_SMI(smi, amdsmi_get_power_info, handle, &info). */
#define ROCM_SMI(smi, symbol, ...)                                                                                     \
    ((smi)->symbol ? (smi)->symbol(__VA_ARGS__) : (amdsmi_status_t)AMDSMI_STATUS_NOT_SUPPORTED)

/*
 * FACET_OK with `library` NULL when AMD SMI is not installed, or the kernel's driver is not loaded. FACET_IO,
 * FACET_ABI_MISMATCH: it is installed and cannot be used.
 */
enum facet_status rocm_smi_open(struct rocm_smi *ret_smi, struct facet_error *error);
void rocm_smi_close(struct rocm_smi *smi);

enum facet_status rocm_smi_status(amdsmi_status_t result);
enum facet_status rocm_smi_fail(const struct rocm_smi *smi, struct facet_error *error, const char *call,
                                amdsmi_status_t result);

#endif
