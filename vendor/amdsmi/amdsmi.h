/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AMD SMI's C interface, as far as it is used here: sockets and processors, identity, readings, events, partitions.
 *
 * Owns: declarations that are the same for code that calls the library or imitates it.
 * Never: is included beside the vendor's own amdsmi.h; holds code; guesses: each declaration has a public source.
 *
 * Source: AMD SMI C API reference, ROCm 6.0 to 7.x. The library is libamd_smi.so.24 (ROCm 6.0 to 6.3), .25 (6.4) and
 * .26 (7). Between them structs changed their layout, and enumerations their numbers. So two kinds of declarations are
 * kept apart: those alike in every release, where arguments are numbers, handles and texts; and those that hold since
 * VENDOR_AMDSMI_STRUCTS.
 */
#ifndef VENDOR_AMDSMI_H
#define VENDOR_AMDSMI_H

#include <stddef.h>
#include <stdint.h>

#define VENDOR_AMDSMI_STRUCTS 26u /* the release (of the soname) from which on the structs and modes below are so */

typedef void *amdsmi_socket_handle;
typedef void *amdsmi_processor_handle;

/* An enumeration in the vendor's header; a number here, so that a newer library's results fit. */
typedef uint32_t amdsmi_status_t;
enum {
    AMDSMI_STATUS_SUCCESS = 0,
    AMDSMI_STATUS_INVAL = 1,
    AMDSMI_STATUS_NOT_SUPPORTED = 2,
    AMDSMI_STATUS_NOT_YET_IMPLEMENTED = 3,
    AMDSMI_STATUS_TIMEOUT = 8,
    AMDSMI_STATUS_NO_PERM = 10,
    AMDSMI_STATUS_OUT_OF_RESOURCES = 15,
    AMDSMI_STATUS_BUSY = 30,
    AMDSMI_STATUS_NOT_FOUND = 31,
    AMDSMI_STATUS_NOT_INIT = 32,
    AMDSMI_STATUS_DRIVER_NOT_LOADED = 34,
    AMDSMI_STATUS_MORE_DATA = 39,
    AMDSMI_STATUS_NO_DATA = 40,
    AMDSMI_STATUS_INSUFFICIENT_SIZE = 41,
    AMDSMI_STATUS_NO_DRV = 51,
    AMDSMI_STATUS_SETTING_UNAVAILABLE = 55,
};

/* --- declarations that every release shares --- */

#define AMDSMI_INIT_AMD_GPUS (UINT64_C(1) << 1)
#define AMDSMI_GPU_UUID_SIZE 38

/* Of a processor on the bus: function 3 bits, device 5, bus 8, domain 48, from the lowest on. */
typedef union {
    uint64_t as_uint;
} amdsmi_bdf_t;

enum { AMDSMI_MEM_TYPE_VRAM = 0, AMDSMI_MEM_TYPE_VIS_VRAM = 1, AMDSMI_MEM_TYPE_GTT = 2 };
enum { AMDSMI_LINK_TYPE_PCIE = 1, AMDSMI_LINK_TYPE_XGMI = 2 };
enum {
    AMDSMI_EVT_NOTIF_VMFAULT = 1,
    AMDSMI_EVT_NOTIF_THERMAL_THROTTLE = 2,
    AMDSMI_EVT_NOTIF_GPU_PRE_RESET = 3,
    AMDSMI_EVT_NOTIF_GPU_POST_RESET = 4,
};
#define AMDSMI_EVENT_MASK_FROM_INDEX(i) (UINT64_C(1) << ((i)-1))

/* One at a time: the text had 64 bytes in older releases, and so the next struct in an array another place. */
typedef struct {
    amdsmi_processor_handle processor_handle;
    uint32_t event;
    char message[256];
} amdsmi_evt_notification_data_t;

amdsmi_status_t amdsmi_init(uint64_t flags);
amdsmi_status_t amdsmi_shut_down(void);
amdsmi_status_t amdsmi_status_code_to_string(amdsmi_status_t status, const char **text);
amdsmi_status_t amdsmi_get_socket_handles(uint32_t *count, amdsmi_socket_handle *handles);
amdsmi_status_t amdsmi_get_processor_handles(amdsmi_socket_handle socket, uint32_t *count,
                                             amdsmi_processor_handle *handles);
amdsmi_status_t amdsmi_get_gpu_device_bdf(amdsmi_processor_handle processor, amdsmi_bdf_t *bdf);
amdsmi_status_t amdsmi_get_gpu_device_uuid(amdsmi_processor_handle processor, unsigned *length, char *uuid);
amdsmi_status_t amdsmi_get_gpu_memory_total(amdsmi_processor_handle processor, int type, uint64_t *bytes);
amdsmi_status_t amdsmi_get_gpu_memory_usage(amdsmi_processor_handle processor, int type, uint64_t *bytes);
/* Energy is count times resolution, in microjoules. */
amdsmi_status_t amdsmi_get_energy_count(amdsmi_processor_handle processor, uint64_t *count, float *resolution,
                                        uint64_t *timestamp);
amdsmi_status_t amdsmi_topo_get_numa_node_number(amdsmi_processor_handle processor, uint32_t *node);
amdsmi_status_t amdsmi_topo_get_link_weight(amdsmi_processor_handle from, amdsmi_processor_handle to, uint64_t *weight);
amdsmi_status_t amdsmi_topo_get_link_type(amdsmi_processor_handle from, amdsmi_processor_handle to, uint64_t *hops,
                                          int *type);
amdsmi_status_t amdsmi_init_gpu_event_notification(amdsmi_processor_handle processor);
amdsmi_status_t amdsmi_set_gpu_event_notification_mask(amdsmi_processor_handle processor, uint64_t mask);
amdsmi_status_t amdsmi_get_gpu_event_notification(int timeout_ms, uint32_t *count,
                                                  amdsmi_evt_notification_data_t *events);
amdsmi_status_t amdsmi_stop_gpu_event_notification(amdsmi_processor_handle processor);
/* "SPX", "NPS1". */
amdsmi_status_t amdsmi_get_gpu_compute_partition(amdsmi_processor_handle processor, char *mode, uint32_t size);
amdsmi_status_t amdsmi_get_gpu_memory_partition(amdsmi_processor_handle processor, char *mode, uint32_t size);

/* --- declarations since VENDOR_AMDSMI_STRUCTS --- */

#define AMDSMI_MAX_STRING_LENGTH 256

typedef struct {
    char market_name[AMDSMI_MAX_STRING_LENGTH];
    uint32_t vendor_id;
    char vendor_name[AMDSMI_MAX_STRING_LENGTH];
    uint32_t subvendor_id;
    uint64_t device_id;
    uint32_t rev_id;
    char asic_serial[AMDSMI_MAX_STRING_LENGTH]; /* "0x" and hexadecimal digits */
    uint32_t oam_id;
    uint32_t num_of_compute_units;    /* all bits set: not known */
    uint64_t target_graphics_version; /* 0x942 is gfx942; all bits set: not known */
    uint32_t subsystem_id;
    uint32_t reserved[21];
} amdsmi_asic_info_t;

typedef struct {
    char driver_version[AMDSMI_MAX_STRING_LENGTH];
    char driver_date[AMDSMI_MAX_STRING_LENGTH];
    char driver_name[AMDSMI_MAX_STRING_LENGTH];
} amdsmi_driver_info_t;

typedef struct {
    uint64_t kfd_id;
    uint32_t node_id;
    uint32_t current_partition_id; /* all bits set: not known */
    uint32_t reserved[12];
} amdsmi_kfd_info_t;

typedef struct {
    uint64_t socket_power; /* all in watts; all bits set: not known */
    uint32_t current_socket_power;
    uint32_t average_socket_power;
    uint64_t gfx_voltage;
    uint64_t soc_voltage;
    uint64_t mem_voltage;
    uint32_t power_limit;
    uint64_t reserved[18];
} amdsmi_power_info_t;

typedef struct {
    uint32_t clk, min_clk, max_clk; /* MHz; all bits set: not known */
    uint8_t clk_locked, clk_deep_sleep;
    uint32_t reserved[4];
} amdsmi_clk_info_t;

typedef struct {
    uint32_t gfx_activity, umc_activity, mm_activity; /* percent */
    uint32_t reserved[13];
} amdsmi_engine_usage_t;

typedef struct {
    uint64_t correctable_count, uncorrectable_count, deferred_count; /* since the driver was loaded */
    uint64_t reserved[5];
} amdsmi_error_count_t;

typedef struct {
    char name[AMDSMI_MAX_STRING_LENGTH];
    uint32_t pid;
    uint64_t mem; /* bytes */
    struct {
        uint64_t gfx, enc; /* ns */
        uint32_t reserved[12];
    } engine_usage;
    struct {
        uint64_t gtt_mem, cpu_mem, vram_mem; /* bytes */
        uint32_t reserved[10];
    } memory_usage;
    char container_name[AMDSMI_MAX_STRING_LENGTH];
    uint32_t cu_occupancy; /* compute units; all bits set: not known */
    uint32_t evicted_time; /* ms */
    uint32_t reserved[10];
} amdsmi_proc_info_t;

_Static_assert(sizeof(amdsmi_asic_info_t) == 896, "amdsmi_asic_info_t");
_Static_assert(sizeof(amdsmi_kfd_info_t) == 64, "amdsmi_kfd_info_t");
_Static_assert(sizeof(amdsmi_engine_usage_t) == 64, "amdsmi_engine_usage_t");
_Static_assert(sizeof(amdsmi_error_count_t) == 64, "amdsmi_error_count_t");

enum { AMDSMI_CLK_TYPE_GFX = 0, AMDSMI_CLK_TYPE_MEM = 4 };
enum { AMDSMI_TEMPERATURE_TYPE_EDGE = 0, AMDSMI_TEMPERATURE_TYPE_HOTSPOT = 1, AMDSMI_TEMPERATURE_TYPE_VRAM = 2 };
enum { AMDSMI_TEMP_CURRENT = 0 };

/* Modes of a whole GPU: into how many parts its compute dies go, and its memory. */
enum {
    AMDSMI_COMPUTE_PARTITION_SPX = 1, /* one of all */
    AMDSMI_COMPUTE_PARTITION_DPX = 2, /* two halves */
    AMDSMI_COMPUTE_PARTITION_TPX = 3,
    AMDSMI_COMPUTE_PARTITION_QPX = 4,
    AMDSMI_COMPUTE_PARTITION_CPX = 5, /* one of each die */
};
enum {
    AMDSMI_MEMORY_PARTITION_NPS1 = 1,
    AMDSMI_MEMORY_PARTITION_NPS2 = 2,
    AMDSMI_MEMORY_PARTITION_NPS4 = 4,
    AMDSMI_MEMORY_PARTITION_NPS8 = 8,
};

amdsmi_status_t amdsmi_get_gpu_asic_info(amdsmi_processor_handle processor, amdsmi_asic_info_t *info);
amdsmi_status_t amdsmi_get_gpu_driver_info(amdsmi_processor_handle processor, amdsmi_driver_info_t *info);
amdsmi_status_t amdsmi_get_gpu_kfd_info(amdsmi_processor_handle processor, amdsmi_kfd_info_t *info);
amdsmi_status_t amdsmi_get_power_info(amdsmi_processor_handle processor, amdsmi_power_info_t *info);
amdsmi_status_t amdsmi_get_clock_info(amdsmi_processor_handle processor, int type, amdsmi_clk_info_t *info);
amdsmi_status_t amdsmi_get_gpu_activity(amdsmi_processor_handle processor, amdsmi_engine_usage_t *usage);
amdsmi_status_t amdsmi_get_temp_metric(amdsmi_processor_handle processor, int sensor, int metric, int64_t *celsius);
amdsmi_status_t amdsmi_get_gpu_total_ecc_count(amdsmi_processor_handle processor, amdsmi_error_count_t *count);
/* `count` says how many fit, and then how many there are (AMDSMI_STATUS_OUT_OF_RESOURCES when they do not fit). */
amdsmi_status_t amdsmi_get_gpu_process_list(amdsmi_processor_handle processor, uint32_t *count,
                                            amdsmi_proc_info_t *processes);
amdsmi_status_t amdsmi_set_gpu_compute_partition(amdsmi_processor_handle processor, int mode);
amdsmi_status_t amdsmi_set_gpu_memory_partition(amdsmi_processor_handle processor, int mode);

#endif
