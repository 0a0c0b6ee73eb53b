/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of a host, one function each. Never: reads the host; it uses a scan's snapshot. */
#include <facet/doctor.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <facet/limits.h>
#include <facet/passthrough.h>

#include "base/sized.h"
#include "passthrough/console.h"
#include "passthrough/stuck.h"

const char *facet_doctor_state_name(uint32_t state)
{
    static const char *const names[FACET_DOCTOR_STATES] = {"good", "bad", "unknown", "warning"};

    return state < FACET_DOCTOR_STATES ? names[state] : NULL;
}

struct examination {
    const struct facet_pci_snapshot *snapshot;
    const struct facet_pci_host *host;
    const struct facet_doctor_environment *environment;
    struct facet_doctor_finding *finding; /* the result of the current check */
};

static void FACET_PRINTF(4, 5)
    find(struct examination *examination, enum facet_doctor_state state, const char *advice, const char *format, ...)
{
    struct facet_doctor_finding *finding = examination->finding;
    va_list arguments;

    finding->state = state;
    finding->advice = advice;
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
}

static const char *advice_of(enum facet_passthrough_reason_code code)
{
    return facet_passthrough_reason_advice(code);
}

/* ---- the IOMMU ---- */

static void check_iommu(struct examination *examination)
{
    if (examination->host->iommus > 0)
        find(examination, FACET_DOCTOR_GOOD, "", "%u unit%s", examination->host->iommus,
             examination->host->iommus == 1 ? "" : "s");
    else if (examination->host->iommu_off == FACET_PCI_YES)
        find(examination, FACET_DOCTOR_BAD, "remove iommu=off and the like from the kernel's command line",
             "the kernel was told to use none");
    else
        find(examination, FACET_DOCTOR_BAD, advice_of(FACET_PASSTHROUGH_NO_IOMMU), "there is none, or it is off");
}

static void check_interrupts(struct examination *examination)
{
    const struct facet_pci_host *host = examination->host;

    if (host->interrupt_remapping == FACET_PCI_YES)
        find(examination, FACET_DOCTOR_GOOD, "", "remapped");
    else if (host->iommus == 0)
        find(examination, FACET_DOCTOR_UNKNOWN, "switch the IOMMU on first", "without an IOMMU there is no remapping");
    else if (host->interrupt_remapping == FACET_PCI_UNKNOWN)
        find(examination, FACET_DOCTOR_UNKNOWN, "run on the host itself", "/proc/interrupts does not tell");
    else if (host->unsafe_interrupts == FACET_PCI_YES)
        find(examination, FACET_DOCTOR_WARNING, advice_of(FACET_PASSTHROUGH_UNSAFE_INTERRUPTS),
             "not remapped, and vfio was told to go without");
    else
        find(examination, FACET_DOCTOR_BAD, advice_of(FACET_PASSTHROUGH_NO_INTERRUPT_REMAPPING), "not remapped");
}

static void check_groups(struct examination *examination)
{
    if (examination->host->iommus == 0)
        find(examination, FACET_DOCTOR_UNKNOWN, "switch the IOMMU on first", "without an IOMMU there are none");
    else if (examination->host->acs_override == FACET_PCI_YES)
        find(examination, FACET_DOCTOR_WARNING, advice_of(FACET_PASSTHROUGH_ACS_OVERRIDE),
             "split by pcie_acs_override, not by the hardware");
    else if (examination->host->acs_override == FACET_PCI_UNKNOWN)
        find(examination, FACET_DOCTOR_UNKNOWN, "run on the host itself", "the kernel's command line cannot be read");
    else
        find(examination, FACET_DOCTOR_GOOD, "", "split as the hardware isolates functions");
}

/* ---- the kernel and the monitor ---- */

static void check_vfio(struct examination *examination)
{
    switch (examination->host->has_vfio_pci) {
    case FACET_PCI_YES:
        find(examination, FACET_DOCTOR_GOOD, "", "vfio-pci is there, or can be loaded");
        break;
    case FACET_PCI_NO:
        find(examination, FACET_DOCTOR_BAD, advice_of(FACET_PASSTHROUGH_NO_VFIO), "this kernel has no vfio-pci");
        break;
    default:
        find(examination, FACET_DOCTOR_UNKNOWN, "load it: modprobe vfio-pci",
             "vfio-pci is not loaded, and the kernel's modules cannot be read");
    }
}

static bool is_at_least(uint32_t version, uint32_t major, uint32_t minor)
{
    return version >= (major << 16 | minor);
}

static void check_iommufd(struct examination *examination)
{
    const struct facet_doctor_environment *environment = examination->environment;

    if (examination->host->has_iommufd != FACET_PCI_YES && environment->kernel_version &&
        !is_at_least(environment->kernel_version, 6, 6))
        find(examination, FACET_DOCTOR_WARNING, "use groups (no --iommufd), or a kernel from 6.6 on",
             "/dev/iommu is not there, because this kernel is %u.%u", environment->kernel_version >> 16,
             environment->kernel_version & 0xffff);
    else if (examination->host->has_iommufd != FACET_PCI_YES)
        find(examination, FACET_DOCTOR_WARNING, "use groups (no --iommufd), or a kernel that is built with it",
             "/dev/iommu is not there");
    else if (environment->qemu_version && !is_at_least(environment->qemu_version, 9, 0))
        find(examination, FACET_DOCTOR_WARNING, "use groups (no --iommufd), or QEMU from 9.0 on",
             "the kernel has it, QEMU %u.%u does not", environment->qemu_version >> 16,
             environment->qemu_version & 0xffff);
    else
        find(examination, FACET_DOCTOR_GOOD, "", "/dev/iommu is there");
}

static void check_kvm(struct examination *examination)
{
    switch (examination->environment->kvm) {
    case FACET_PCI_YES:
        find(examination, FACET_DOCTOR_GOOD, "", "/dev/kvm can be opened");
        break;
    case FACET_PCI_NO:
        find(examination, FACET_DOCTOR_WARNING,
             "switch virtualization on in the firmware, load kvm, and join the group of /dev/kvm",
             "/dev/kvm cannot be opened: machines would be emulated");
        break;
    default:
        find(examination, FACET_DOCTOR_UNKNOWN, "run on the host itself", "not looked at");
    }
}

static void check_qemu(struct examination *examination)
{
    uint32_t version = examination->environment->qemu_version;

    switch (examination->environment->qemu) {
    case FACET_PCI_YES:
        if (version == 0)
            find(examination, FACET_DOCTOR_UNKNOWN, "ask it: --version", "it is there, and does not tell its version");
        else
            find(examination, FACET_DOCTOR_GOOD, "", "QEMU %u.%u", version >> 16, version & 0xffff);
        break;
    case FACET_PCI_NO:
        find(examination, FACET_DOCTOR_WARNING, "install qemu-system for this processor, or use another monitor",
             "it was not found");
        break;
    default:
        find(examination, FACET_DOCTOR_UNKNOWN, "run on the host itself", "not looked at");
    }
}

/* ---- memory ---- */

/* All memory of a virtual machine is locked. It is at most the host's, so a limit of that size is enough. */
static void check_memory_lock(struct examination *examination)
{
    uint64_t limit = examination->environment->memory_lock_bytes;
    char text[40];

    facet_format_size(limit, text, sizeof text);
    if (limit == 0)
        find(examination, FACET_DOCTOR_UNKNOWN, "see ulimit -l of the user that starts machines",
             "the limit is not known");
    else if (limit == UINT64_MAX || (examination->host->memory_bytes && limit >= examination->host->memory_bytes))
        find(examination, FACET_DOCTOR_GOOD, "", "%s may be locked", limit == UINT64_MAX ? "all memory" : text);
    else
        find(examination, FACET_DOCTOR_WARNING, advice_of(FACET_PASSTHROUGH_MEMORY_LOCK),
             "%s may be locked: a machine with more ends with VFIO_MAP_DMA: ENOMEM", text);
}

static void check_mappings(struct examination *examination)
{
    uint64_t entries = examination->host->dma_entries;

    if (entries == 0)
        find(examination, FACET_DOCTOR_UNKNOWN, "load vfio_iommu_type1 to see its limit",
             "vfio_iommu_type1 is not loaded");
    else if (entries < 65535)
        find(examination, FACET_DOCTOR_WARNING, "raise vfio_iommu_type1.dma_entry_limit",
             "%" PRIu64 " in a container; the kernel's default is 65535", entries);
    else
        find(examination, FACET_DOCTOR_GOOD, "", "%" PRIu64 " in a container", entries);
}

/* ---- the screen, and power ---- */

/* Finds the GPU whose memory the console uses; a console on another device, or on none, blocks no GPU. */
static const struct facet_pci_function *find_console(const struct examination *examination,
                                                     const struct facet_pci_region *region)
{
    const struct facet_pci_function *function;

    for (uint32_t i = 0; (function = facet_pci_snapshot_at(examination->snapshot, i)); i++)
        for (uint32_t j = 0; j < FACET_PCI_BARS_COUNT && facet_pci_is_accelerator(function); j++)
            if (facet_console_is_in(&function->bars[j], region))
                return function;
    return NULL;
}

static void check_console(struct examination *examination)
{
    const struct facet_pci_host *host = examination->host;
    char address[FACET_PCI_ADDRESS_SIZE];

    for (size_t i = 0; i < host->region_count; i++) {
        const struct facet_pci_function *function = find_console(examination, &host->regions[i]);

        if (!function)
            continue;
        facet_pci_address_print(&function->address, address);
        find(examination, FACET_DOCTOR_WARNING,
             "to pass that GPU through: boot with initcall_blacklist=sysfb_init, or video=efifb:off for older kernels",
             "%s holds memory of %s", host->regions[i].owner, address);
        return;
    }
    if (host->regions_unread != FACET_PCI_READ)
        find(examination, FACET_DOCTOR_UNKNOWN, "run as root, on the host itself", "/proc/iomem does not tell: %s",
             facet_pci_unread_name(host->regions_unread));
    else
        find(examination, FACET_DOCTOR_GOOD, "", "it holds no GPU's memory");
}

struct census {
    uint32_t count, lost, stuck, asleep, without_power, unknown;
};

static struct census count_devices(const struct facet_pci_snapshot *snapshot)
{
    const struct facet_pci_function *function;
    struct census census = {0};

    for (uint32_t i = 0; (function = facet_pci_snapshot_at(snapshot, i)); i++) {
        if (!facet_pci_is_accelerator(function))
            continue;
        bool asleep = function->unread[FACET_PCI_CONFIG] == FACET_PCI_UNREAD_ASLEEP;
        census.count++;
        census.lost += function->is_lost != 0;
        census.stuck += stuck_is(function);
        census.asleep += asleep;
        census.without_power += strcmp(function->power_state, "D3cold") == 0;
        census.unknown +=
            !asleep && !function->is_lost && !stuck_is(function) && function->header_type == FACET_PCI_HEADER_UNKNOWN;
    }
    return census;
}

/* A lost device is only a warning while other devices answer, because those can still be passed through. */
static void check_devices(struct examination *examination)
{
    const struct census census = count_devices(examination->snapshot);

    if (census.lost > 0)
        find(examination, census.lost == census.count ? FACET_DOCTOR_BAD : FACET_DOCTOR_WARNING,
             advice_of(FACET_PASSTHROUGH_LOST), "%u of %u do not answer", census.lost, census.count);
    else if (census.stuck > 0)
        find(examination, FACET_DOCTOR_WARNING, "see the finding about drivers", "%u, of which %u cannot be asked",
             census.count, census.stuck);
    else if (census.count == 0)
        find(examination, FACET_DOCTOR_WARNING, "see 'facet pci scan --all'", "there is none on PCI");
    else if (census.unknown > 0)
        find(examination, FACET_DOCTOR_UNKNOWN, advice_of(FACET_PASSTHROUGH_UNREAD), "%u of %u could not be asked",
             census.unknown, census.count);
    else if (census.without_power > 0 && examination->host->disable_idle_d3 != FACET_PCI_YES)
        find(examination, FACET_DOCTOR_WARNING, advice_of(FACET_PASSTHROUGH_SLEEPS), "%u of %u are without power",
             census.without_power, census.count);
    else if (census.asleep > 0)
        find(examination, FACET_DOCTOR_GOOD, "", "%u, of which %u sleep and are not woken", census.count,
             census.asleep);
    else
        find(examination, FACET_DOCTOR_GOOD, "", "%u, and %s", census.count,
             census.count == 1 ? "it answers" : "all answer");
}

/* A stuck function is only a warning, because functions of other groups can still be passed through. */
static void check_drivers(struct examination *examination)
{
    const struct facet_pci_function *function, *first = NULL;
    char address[FACET_PCI_ADDRESS_SIZE], text[160], more[24] = "";
    uint32_t count = 0;

    for (uint32_t i = 0; (function = facet_pci_snapshot_at(examination->snapshot, i)); i++) {
        first = !first && stuck_is(function) ? function : first;
        count += stuck_is(function);
    }
    if (!first) {
        if (facet_pci_snapshot_count(examination->snapshot) > 0)
            find(examination, FACET_DOCTOR_GOOD, "", "none hangs");
        else
            find(examination, FACET_DOCTOR_UNKNOWN, "run on the host itself", "there is no function to ask about");
        return;
    }
    facet_pci_address_print(&first->address, address);
    stuck_print(first, text, sizeof text);
    if (count > 1)
        snprintf(more, sizeof more, " (and %u more)", count - 1);
    find(examination, FACET_DOCTOR_WARNING, advice_of(FACET_PASSTHROUGH_STUCK), "%s %s%s", address, text, more);
}

static const struct {
    const char *name;
    void (*check)(struct examination *examination);
} checks[FACET_DOCTOR_CHECKS] = {
    {"accelerators", check_devices},    {"drivers", check_drivers},   {"iommu", check_iommu},
    {"interrupts", check_interrupts},   {"groups", check_groups},     {"vfio", check_vfio},
    {"iommufd", check_iommufd},         {"kvm", check_kvm},           {"qemu", check_qemu},
    {"memory lock", check_memory_lock}, {"mappings", check_mappings}, {"console", check_console},
};

enum facet_status facet_doctor_examine(const struct facet_pci_snapshot *snapshot,
                                       const struct facet_doctor_environment *environment,
                                       struct facet_doctor_finding ret_findings[FACET_DOCTOR_CHECKS],
                                       struct facet_error *error)
{
    if (!snapshot || !environment || !ret_findings)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT,
                                    !snapshot      ? "snapshot"
                                    : !environment ? "environment"
                                                   : "ret_findings",
                                    "must not be NULL");
    if (environment->size < sizeof *environment)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "environment->size",
                                    "is %u, at least %zu was expected", environment->size, sizeof *environment);
    FACET_NEED_KNOWN("environment", environment, error);
    FACET_NEED_RESERVED("environment", environment, error);

    struct examination examination = {
        .snapshot = snapshot, .host = facet_pci_snapshot_host(snapshot), .environment = environment};
    for (uint32_t i = 0; i < FACET_DOCTOR_CHECKS; i++) {
        ret_findings[i] = (struct facet_doctor_finding){.size = sizeof ret_findings[i], .check = checks[i].name};
        examination.finding = &ret_findings[i];
        checks[i].check(&examination);
    }
    return FACET_OK;
}
