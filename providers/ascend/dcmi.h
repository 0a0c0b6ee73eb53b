/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DCMI, the management library of Ascend drivers, as far as this provider uses it.
 *
 * Owns: the declarations, in our own words after Huawei's published "DCMI API Reference" (Ascend HDK 23 to 25; the
 * per-card interface, libdcmi.so), opening the library at run time, and translating its return codes.
 * Never: links to it, and never calls it from two threads at once: the reference promises nothing about threads.
 *
 * Every function returns 0 or a negative code. A chip is identified by its card and its number on the card; it also has
 * a logical number (used by AscendCL) and a physical one (used by /dev/davinciN).
 */
#ifndef FACET_ASCEND_DCMI_H
#define FACET_ASCEND_DCMI_H

#include <stdint.h>

#include <facet/error.h>

#define DCMI_MAX_CARDS     64  /* the most in a machine */
#define DCMI_MAX_CHIPS     16  /* on one card, far above any built */
#define DCMI_MAX_PROCESSES 256 /* drivers write up to 32, newer ones up to 64 */

struct dcmi_chip_info {
    unsigned char type[32]; /* "Ascend" */
    unsigned char name[32]; /* "910B3" */
    unsigned char version[32];
    unsigned int ai_cores;
};

struct dcmi_pcie_info {
    unsigned int device_id, vendor_id, subvendor_id, subdevice_id;
    unsigned int bdf_device, bdf_bus, bdf_function;
};

struct dcmi_pcie_info_v2 {
    unsigned int vendor_id, subvendor_id, device_id, subdevice_id;
    int domain;
    unsigned int bdf_bus, bdf_device, bdf_function;
    unsigned char reserved[32];
};
_Static_assert(sizeof(struct dcmi_pcie_info_v2) == 64, "DCMI: size of the second form of PCIe information");

struct dcmi_hbm_info {
    unsigned long long total; /* MiB */
    unsigned int clock;       /* MHz */
    unsigned long long used;  /* MiB */
    int temperature;
    unsigned int bandwidth_percent;
};
_Static_assert(sizeof(struct dcmi_hbm_info) == 32, "DCMI: size of the memory information");

struct dcmi_ecc_info {
    int enabled;
    unsigned int single_now, double_now;     /* since the last reset */
    unsigned int single_total, double_total; /* counters */
    unsigned int single_isolated_pages, double_isolated_pages;
};
_Static_assert(sizeof(struct dcmi_ecc_info) == 28, "DCMI: size of the ECC information");

struct dcmi_die_id {
    unsigned int words[5];
};

struct dcmi_process {
    int pid; /* in the host's pid namespace */
    unsigned long memory_bytes;
};

enum dcmi_unit { DCMI_UNIT_NPU = 0 }; /* beside the chips a card has a controller and a processor */
enum dcmi_die { DCMI_DIE_COMPUTE = 1 };
enum dcmi_component { DCMI_COMPONENT_HBM = 2 };
enum dcmi_clock { DCMI_CLOCK_HBM = 6, DCMI_CLOCK_AI_CORE = 7, DCMI_CLOCK_AI_CORE_RATED = 9 };
enum dcmi_rate { DCMI_RATE_AI_CORE = 2, DCMI_RATE_HBM_BANDWIDTH = 10, DCMI_RATE_AI_CUBE = 14 };

enum dcmi_health {
    DCMI_HEALTH_OK = 0,
    DCMI_HEALTH_MINOR = 1,
    DCMI_HEALTH_MAJOR = 2,
    DCMI_HEALTH_CRITICAL = 3,
    /* and 0xffffffff: not installed, or not started */
};

enum dcmi_connection {
    DCMI_CONNECTION_SYSTEM = 1,      /* across NUMA nodes */
    DCMI_CONNECTION_HOST_BRIDGE = 2, /* through one processor's host bridge */
    DCMI_CONNECTION_HCCS = 3,
    DCMI_CONNECTION_SWITCHES = 4, /* several PCIe switches */
    DCMI_CONNECTION_SWITCH = 5,   /* one PCIe switch */
    DCMI_CONNECTION_PACKAGE = 6,  /* two dies of one card; drivers before HDK 24 report 6 for "unknown" */
    DCMI_CONNECTION_HCCS_SWITCH = 7,
};

/* X(name without its prefix dcmi_, parameters). The first three functions must exist, the others may be missing. */
#define DCMI_TABLE(X)                                                                                                  \
    X(init, (void))                                                                                                    \
    X(get_card_list, (int *ret_count, int *ret_cards, int capacity))                                                   \
    X(get_device_num_in_card, (int card, int *ret_chips))                                                              \
    X(get_device_type, (int card, int chip, enum dcmi_unit *ret_unit))                                                 \
    X(get_device_logic_id, (int *ret_logic, int card, int chip))                                                       \
    X(get_device_phyid_from_logicid, (unsigned int logic, unsigned int *ret_physical))                                 \
    X(get_device_chip_info, (int card, int chip, struct dcmi_chip_info *ret_info))                                     \
    X(get_device_die_v2, (int card, int chip, enum dcmi_die die, struct dcmi_die_id *ret_id))                          \
    X(get_device_pcie_info, (int card, int chip, struct dcmi_pcie_info *ret_info))                                     \
    X(get_device_pcie_info_v2, (int card, int chip, struct dcmi_pcie_info_v2 *ret_info))                               \
    X(get_device_health, (int card, int chip, unsigned int *ret_health))                                               \
    X(get_device_hbm_info, (int card, int chip, struct dcmi_hbm_info *ret_info))                                       \
    X(get_device_ecc_info, (int card, int chip, enum dcmi_component component, struct dcmi_ecc_info *ret_info))        \
    X(get_device_frequency, (int card, int chip, enum dcmi_clock clock, unsigned int *ret_mhz))                        \
    X(get_device_utilization_rate, (int card, int chip, int rate, unsigned int *ret_percent))                          \
    X(get_device_temperature, (int card, int chip, int *ret_celsius))                                                  \
    X(get_device_power_info, (int card, int chip, int *ret_deciwatts))                                                 \
    X(get_device_resource_info, (int card, int chip, struct dcmi_process *ret_processes, int *ret_count))              \
    X(get_topo_info_by_device_id, (int card_a, int chip_a, int card_b, int chip_b, int *ret_connection))               \
    X(get_driver_version, (char *text, unsigned int capacity))

struct ascend_dcmi {
    void *library; /* NULL: not on this machine */
#define DCMI_MEMBER(name, parameters) int(*name) parameters;
    DCMI_TABLE(DCMI_MEMBER)
#undef DCMI_MEMBER
};

/* Opens the library. FACET_OK with `library` NULL when there is none; a library that cannot be used is an error. */
enum facet_status ascend_dcmi_open(struct ascend_dcmi *dcmi, struct facet_error *error);
void ascend_dcmi_close(struct ascend_dcmi *dcmi);

void ascend_dcmi_lock(void);
void ascend_dcmi_unlock(void);

#define DCMI_NOT_OFFERED (-8255) /* the library's code for unsupported calls */

/* The code of one call; a function that the library lacks counts as unsupported. */
#define ASCEND_DCMI(dcmi, name, ...)                                                                                   \
    __extension__({                                                                                                    \
        int ascend_code_ = DCMI_NOT_OFFERED;                                                                           \
        if ((dcmi)->name) {                                                                                            \
            ascend_dcmi_lock();                                                                                        \
            ascend_code_ = (dcmi)->name(__VA_ARGS__);                                                                  \
            ascend_dcmi_unlock();                                                                                      \
        }                                                                                                              \
        ascend_code_;                                                                                                  \
    })

enum facet_status ascend_dcmi_status(int code);

/* Refuses because `call` answered `code`. */
enum facet_status ascend_dcmi_fail(struct facet_error *error, const char *call, int code);

#endif
