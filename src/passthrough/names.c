/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the names of the enumerations in snapshots and judgements. Never: reads a snapshot or a judgement. */
#include <facet/passthrough.h>
#include <facet/pci.h>

#define NAME_AT(names, index) ((index) < sizeof(names) / sizeof((names)[0]) ? (names)[index] : NULL)

const char *facet_pci_kind_name(uint32_t kind)
{
    static const char *const names[FACET_PCI_KINDS] = {
        "other", "bridge", "gpu", "npu", "audio", "usb", "storage", "network",
    };

    return NAME_AT(names, kind);
}

const char *facet_pci_attribute_name(uint32_t attribute)
{
    static const char *const names[FACET_PCI_ATTRIBUTES] = {
        [FACET_PCI_IDENTITY] = "identity", [FACET_PCI_NAMES] = "names",   [FACET_PCI_CONFIG] = "config",
        [FACET_PCI_SLOT] = "slot",         [FACET_PCI_DRIVER] = "driver", [FACET_PCI_OVERRIDE] = "override",
        [FACET_PCI_NUMA] = "numa",         [FACET_PCI_LINK] = "link",     [FACET_PCI_GROUP] = "group",
        [FACET_PCI_RESET] = "reset",       [FACET_PCI_BARS] = "bars",     [FACET_PCI_RESIZE] = "resize",
        [FACET_PCI_BOOT_VGA] = "boot_vga", [FACET_PCI_SRIOV] = "sriov",   [FACET_PCI_TYPES] = "types",
        [FACET_PCI_POWER] = "power",       [FACET_PCI_D3COLD] = "d3cold", [FACET_PCI_AER] = "aer",
        [FACET_PCI_HOLDERS] = "holders",   [FACET_PCI_USES] = "uses",
    };

    return NAME_AT(names, attribute);
}

const char *facet_pci_unread_name(uint32_t unread)
{
    static const char *const names[FACET_PCI_UNREADS] = {
        "read", "absent", "permission", "malformed", "asleep", "io", "skipped", "stuck", "unknown",
    };

    return NAME_AT(names, unread);
}

/* The names are those that the kernel uses in a function's file reset_method. */
const char *facet_pci_reset_name(uint32_t method)
{
    static const char *const names[FACET_PCI_RESETS] = {
        "device_specific", "acpi", "flr", "af_flr", "pm", "bus", "cxl_bus",
    };

    for (uint32_t i = 0; i < FACET_PCI_RESETS; i++)
        if (method == UINT32_C(1) << i)
            return names[i];
    return NULL;
}

/* ---- judgements ---- */

static const struct {
    const char *name, *advice;
} reasons[] = {
#define REASON(NAME, name, weight, advice) {#name, advice},
    FACET_PASSTHROUGH_REASON_TABLE(REASON)
#undef REASON
};

const char *facet_passthrough_reason_name(uint32_t code)
{
    return code < FACET_PASSTHROUGH_REASONS ? reasons[code].name : NULL;
}

const char *facet_passthrough_reason_advice(uint32_t code)
{
    return code < FACET_PASSTHROUGH_REASONS ? reasons[code].advice : NULL;
}

const char *facet_passthrough_answer_name(uint32_t answer)
{
    static const char *const names[] = {"unknown", "no", "yes"};

    return NAME_AT(names, answer);
}
