/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the families of PCI functions. Never: writes a sample of a value that could not be read. */
#include "metrics_pci.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <facet/passthrough.h>

#include "base/cleanup.h"
#include "monitor/prometheus.h"
#include "pci.h"

/* One function's address as a label, and room for a second label, which some families have. */
struct labels {
    char address[FACET_PCI_ADDRESS_SIZE];
    struct facet_label label[2];
};

static void label_function(const struct facet_pci_function *function, struct labels *labels)
{
    facet_pci_address_print(&function->address, labels->address);
    labels->label[0] = (struct facet_label){"address", labels->address};
}

static bool is_read(const struct facet_pci_function *function, enum facet_pci_attribute attribute)
{
    return function->unread[attribute] == FACET_PCI_READ;
}

/* ---- families ---- */

typedef void (*sample_func)(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                            const struct facet_pci_function *function, struct labels *labels);

static void sample_info(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                        const struct facet_pci_function *function, struct labels *labels)
{
    const struct facet_label label[] = {labels->label[0],
                                        {"kind", facet_pci_kind_name(function->kind)},
                                        {"vendor", function->vendor_name},
                                        {"device", function->device_name},
                                        {"driver", function->driver}};

    (void)snapshot;
    facet_prometheus_count(text, label, sizeof label / sizeof label[0], 1);
}

static void sample_passthrough(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                               const struct facet_pci_function *function, struct labels *labels)
{
    struct facet_passthrough_verdict *verdict = NULL;
    struct facet_passthrough_wish wish = {
        .size = sizeof wish, .flags = FACET_PASSTHROUGH_WHOLE_GROUP, .functions = &function->address, .count = 1};

    if (facet_passthrough_judge(snapshot, &wish, &verdict, NULL))
        return;
    labels->label[1] = (struct facet_label){"answer", facet_passthrough_answer_name(verdict->answer)};
    facet_prometheus_count(text, labels->label, 2, 1);
    facet_passthrough_verdict_destroy(verdict);
}

static void sample_lost(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                        const struct facet_pci_function *function, struct labels *labels)
{
    (void)snapshot;
    if (is_read(function, FACET_PCI_CONFIG))
        facet_prometheus_count(text, labels->label, 1, function->is_lost);
}

static void sample_stuck(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                         const struct facet_pci_function *function, struct labels *labels)
{
    bool is_stuck = function->unread[FACET_PCI_OVERRIDE] == FACET_PCI_UNREAD_STUCK;

    (void)snapshot;
    if (is_stuck || is_read(function, FACET_PCI_OVERRIDE))
        facet_prometheus_count(text, labels->label, 1, is_stuck);
}

static void sample_errors(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                          const struct facet_pci_function *function, struct labels *labels)
{
    const struct {
        const char *severity;
        uint64_t count;
    } errors[] = {{"correctable", function->aer.correctable},
                  {"nonfatal", function->aer.nonfatal},
                  {"fatal", function->aer.fatal}};

    (void)snapshot;
    for (size_t i = 0; i < 3 && is_read(function, FACET_PCI_AER); i++) {
        labels->label[1] = (struct facet_label){"severity", errors[i].severity};
        facet_prometheus_count(text, labels->label, 2, errors[i].count);
    }
}

static void sample_power(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                         const struct facet_pci_function *function, struct labels *labels)
{
    (void)snapshot;
    labels->label[1] = (struct facet_label){"state", function->power_state};
    if (is_read(function, FACET_PCI_POWER) && function->power_state[0])
        facet_prometheus_count(text, labels->label, 2, 1);
}

static void sample_link(struct facet_prometheus *text, const struct facet_label *label,
                        const struct facet_pci_link *link, bool speed)
{
    if (link->width)
        facet_prometheus_count(text, label, 1, speed ? link->speed_mts * UINT64_C(1000000) : link->width);
}

static void sample_width(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                         const struct facet_pci_function *function, struct labels *labels)
{
    (void)snapshot;
    if (is_read(function, FACET_PCI_LINK))
        sample_link(text, labels->label, &function->link, false);
}

static void sample_width_maximum(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                                 const struct facet_pci_function *function, struct labels *labels)
{
    (void)snapshot;
    sample_link(text, labels->label, &function->link_maximum, false);
}

static void sample_speed(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                         const struct facet_pci_function *function, struct labels *labels)
{
    (void)snapshot;
    if (is_read(function, FACET_PCI_LINK))
        sample_link(text, labels->label, &function->link, true);
}

static void sample_speed_maximum(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                                 const struct facet_pci_function *function, struct labels *labels)
{
    (void)snapshot;
    sample_link(text, labels->label, &function->link_maximum, true);
}

static void sample_virtuals(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                            const struct facet_pci_function *function, struct labels *labels)
{
    (void)snapshot;
    if (is_read(function, FACET_PCI_SRIOV))
        facet_prometheus_count(text, labels->label, 1, function->sriov_count);
}

static void sample_holders(struct facet_prometheus *text, const struct facet_pci_snapshot *snapshot,
                           const struct facet_pci_function *function, struct labels *labels)
{
    (void)snapshot;
    if (is_read(function, FACET_PCI_HOLDERS))
        facet_prometheus_count(text, labels->label, 1, function->holder_count);
}

static const struct {
    const char *name, *help;
    enum facet_metric_type type;
    sample_func sample;
} families[] = {
    {"facet_pci_info", "PCI functions that matter, and their drivers", FACET_METRIC_GAUGE, sample_info},
    {"facet_pci_passthrough", "Whether the function's whole group can be handed to a virtual machine",
     FACET_METRIC_GAUGE, sample_passthrough},
    {"facet_pci_lost", "1 where nothing answers any more", FACET_METRIC_GAUGE, sample_lost},
    {"facet_pci_stuck", "1 where the kernel keeps its lock: a driver or a reset has not returned", FACET_METRIC_GAUGE,
     sample_stuck},
    {"facet_pci_errors_total", "Errors that the kernel counted (AER)", FACET_METRIC_COUNTER, sample_errors},
    {"facet_pci_power_state", "The power state", FACET_METRIC_GAUGE, sample_power},
    {"facet_pci_link_width", "Lanes in use", FACET_METRIC_GAUGE, sample_width},
    {"facet_pci_link_width_maximum", "Lanes at best", FACET_METRIC_GAUGE, sample_width_maximum},
    {"facet_pci_link_transfers_per_second", "Speed of each lane now; less when idle", FACET_METRIC_GAUGE, sample_speed},
    {"facet_pci_link_transfers_per_second_maximum", "Speed of each lane at best", FACET_METRIC_GAUGE,
     sample_speed_maximum},
    {"facet_pci_virtual_functions", "Virtual functions that there are", FACET_METRIC_GAUGE, sample_virtuals},
    {"facet_pci_holders", "Processes that have it open", FACET_METRIC_GAUGE, sample_holders},
};

/* ---- all of them ---- */

static bool is_wanted(const struct facet_pci_function *function)
{
    return function->kind != FACET_PCI_KIND_BRIDGE && is_read(function, FACET_PCI_IDENTITY) &&
           function->unread[FACET_PCI_POWER] != FACET_PCI_UNREAD_SKIPPED;
}

static char *print_families(const struct facet_pci_snapshot *snapshot)
{
    const struct facet_pci_function *function;
    struct facet_prometheus text;
    struct labels labels;

    facet_prometheus_init(&text);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        facet_prometheus_family(&text, families[i].name, families[i].type, families[i].help);
        for (uint32_t j = 0; (function = facet_pci_snapshot_at(snapshot, j)); j++)
            if (is_wanted(function)) {
                label_function(function, &labels);
                families[i].sample(&text, snapshot, function, &labels);
            }
    }
    return facet_prometheus_take(&text);
}

enum facet_status metrics_of_pci(const char *root, char **ret_text, struct facet_error *error)
{
    FACET_CLEANUP_FD int directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    PCI_CLEANUP_SNAPSHOT struct facet_pci_snapshot *snapshot = NULL;
    struct facet_pci_scan_config config = {.size = sizeof config, .flags = FACET_PCI_SCAN_HOLDERS, .root = directory};

    if (directory < 0)
        return facet_error_errno(error, errno, "cannot open the directory %s", root);
    enum facet_status status = facet_pci_scan(&config, &snapshot, error);
    if (status)
        return status;
    char *text = print_families(snapshot);
    if (!text)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the metrics of PCI functions");
    *ret_text = text;
    return FACET_OK;
}
