/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: finding the chips, and their description in struct facet_device_info and the properties.
 * Never: guesses a value: a value that no call returned, or that is impossible, stays unset.
 *
 * Identity. The uuid is a hash of the die's number, which is burnt in at the factory. If the driver does not report the
 * die, the uuid is a hash of the PCI address, and without an address a hash of the numbers of card and chip.
 */
#include <stdlib.h>

#include "ascend.h"

#define MIB             (UINT64_C(1) << 20)
#define MAX_MEMORY_MIB  (UINT64_C(1) << 24) /* 16 TiB, above which a size is garbage */
#define MAX_CORES       4096u
#define MAX_CLOCK_MHZ   100000u
#define PROPERTIES_SIZE 2048

/* Copies a text of the vendor's, which need not be terminated. */
static void vendor_text(char *target, size_t size, const unsigned char *source, size_t source_size)
{
    char copy[256] = "";

    if (source_size >= sizeof copy)
        source_size = sizeof copy - 1;
    memcpy(copy, source, source_size);
    facet_kit_text(target, size, copy);
}

#define VENDOR_TEXT(target, source) vendor_text((target), sizeof(target), (source), sizeof(source))

static void describe_numbers(const struct ascend_dcmi *dcmi, struct ascend_chip *chip)
{
    int logic = -1;
    unsigned int physical;

    if (ASCEND_DCMI(dcmi, get_device_logic_id, &logic, chip->card, chip->chip_number) != 0 || logic < 0)
        return;
    chip->logic = logic;
    chip->has_logic = true;
    if (ASCEND_DCMI(dcmi, get_device_phyid_from_logicid, (unsigned int)logic, &physical) != 0)
        return;
    chip->physical = physical;
    chip->has_physical = true;
}

static void describe_model(const struct ascend_dcmi *dcmi, struct ascend_chip *chip, struct facet_device_info *info)
{
    struct dcmi_chip_info model = {0};
    char type[33] = "", name[33] = "";

    FACET_KIT_TEXT(info->name, "Ascend NPU");
    if (ASCEND_DCMI(dcmi, get_device_chip_info, chip->card, chip->chip_number, &model) != 0)
        return;
    VENDOR_TEXT(type, model.type);
    VENDOR_TEXT(name, model.name);
    VENDOR_TEXT(chip->chip_version, model.version);
    if (*name)
        snprintf(info->name, sizeof info->name, "%s%s%s", type, *type ? " " : "", name);
    if (model.ai_cores > 0 && model.ai_cores <= MAX_CORES) {
        info->compute_units = model.ai_cores;
        info->valid |= FACET_DEVICE_HAS_COMPUTE_UNITS;
    }
}

static void describe_memory(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip,
                            struct facet_device_info *info)
{
    struct dcmi_hbm_info memory = {0};

    if (ASCEND_DCMI(dcmi, get_device_hbm_info, chip->card, chip->chip_number, &memory) != 0 || memory.total == 0 ||
        memory.total > MAX_MEMORY_MIB)
        return;
    info->memory_bytes = memory.total * MIB;
    info->valid |= FACET_DEVICE_HAS_MEMORY;
}

static void describe_clock(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip,
                           struct facet_device_info *info)
{
    unsigned int mhz = 0;

    if (ASCEND_DCMI(dcmi, get_device_frequency, chip->card, chip->chip_number, DCMI_CLOCK_AI_CORE_RATED, &mhz) != 0 ||
        mhz == 0 || mhz > MAX_CLOCK_MHZ)
        return;
    info->clock_mhz = mhz;
    info->valid |= FACET_DEVICE_HAS_CLOCK;
}

static bool read_pci(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip, struct dcmi_pcie_info_v2 *ret_pci)
{
    struct dcmi_pcie_info_v2 pci = {0};
    struct dcmi_pcie_info old = {0};

    if (ASCEND_DCMI(dcmi, get_device_pcie_info_v2, chip->card, chip->chip_number, &pci) != 0) {
        if (ASCEND_DCMI(dcmi, get_device_pcie_info, chip->card, chip->chip_number, &old) != 0)
            return false;
        pci = (struct dcmi_pcie_info_v2){
            .bdf_bus = old.bdf_bus, .bdf_device = old.bdf_device, .bdf_function = old.bdf_function};
    }
    *ret_pci = pci;
    return pci.domain >= 0 && pci.domain <= 0xffff && pci.bdf_bus <= 0xff && pci.bdf_device <= 0x1f &&
           pci.bdf_function <= 7;
}

static void describe_pci(const struct ascend_dcmi *dcmi, const struct ascend_chip *chip, struct facet_device_info *info)
{
    struct dcmi_pcie_info_v2 pci;

    if (!read_pci(dcmi, chip, &pci))
        return;
    snprintf(info->pci_address, sizeof info->pci_address, "%04x:%02x:%02x.%x", (unsigned)pci.domain & 0xffff,
             pci.bdf_bus & 0xff, pci.bdf_device & 0x1f, pci.bdf_function & 7);
    info->valid |= FACET_DEVICE_HAS_PCI;
}

static void describe_identity(const struct ascend_dcmi *dcmi, struct ascend_chip *chip, struct facet_device_info *info)
{
    struct dcmi_die_id die = {0};
    const unsigned int *word = die.words;
    char text[128];

    if (ASCEND_DCMI(dcmi, get_device_die_v2, chip->card, chip->chip_number, DCMI_DIE_COMPUTE, &die) == 0 &&
        (word[0] | word[1] | word[2] | word[3] | word[4])) {
        snprintf(chip->die, sizeof chip->die, "%08x-%08x-%08x-%08x-%08x", word[0], word[1], word[2], word[3], word[4]);
        snprintf(text, sizeof text, "ascend die %s", chip->die);
    } else if (info->valid & FACET_DEVICE_HAS_PCI) {
        snprintf(text, sizeof text, "ascend pci %s", info->pci_address);
    } else {
        snprintf(text, sizeof text, "ascend card %d chip %d", chip->card, chip->chip_number);
    }
    facet_kit_uuid_of(text, info->uuid);
}

/* The capabilities depend on the functions that the libraries have, and on probes: one that fails removes its own. */
static uint64_t capabilities_of(const struct facet_provider_instance *instance, struct ascend_chip *chip,
                                const struct facet_device_info *info)
{
    const uint64_t needed_bits = FACET_DEVICE_HAS_MEMORY | FACET_DEVICE_HAS_COMPUTE_UNITS;
    struct facet_device_metrics metrics = {.size = sizeof metrics};
    struct dcmi_process processes[DCMI_MAX_PROCESSES];
    uint64_t can = 0;
    int count;

    if (ascend_metrics_read(&instance->dcmi, chip, &metrics) == 0)
        can |= FACET_CAN_DEVICE_METRICS;
    if (ascend_processes_read(&instance->dcmi, chip, processes, &count) == 0)
        can |= FACET_CAN_PROCESS_METRICS;
    if (instance->dcmi.get_topo_info_by_device_id)
        can |= FACET_CAN_TOPOLOGY;
    if (ascend_chip_read_state(&instance->dcmi, chip, &chip->last_reading))
        can |= FACET_CAN_EVENTS;
    if (chip->has_physical)
        can |= FACET_CAN_CONTAINER;
    if (chip->has_logic && (info->valid & needed_bits) == needed_bits && ascend_acl_limits(&instance->acl))
        can |= FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE;
    /* With this variable set AscendCL numbers the chips differently, and a context would be on another chip. */
    if (chip->has_logic && (info->valid & FACET_DEVICE_HAS_MEMORY) && ascend_acl_allocates(&instance->acl) &&
        !getenv("ASCEND_RT_VISIBLE_DEVICES"))
        can |= FACET_CAN_MEMORY;
    return can;
}

static void describe_modes(struct facet_device_info *info)
{
    info->modes = FACET_DEVICE_MODE(FACET_MODE_SHARED) | FACET_DEVICE_MODE(FACET_MODE_SOFT);
    info->mode_group[FACET_MODE_SHARED] = 1;
    info->mode_group[FACET_MODE_SOFT] = 1;
    /* A worker without a limit may use every core, so no hard limit would hold beside it: all modes are in group 0. */
    if (info->capabilities & FACET_CAN_LIMIT_COMPUTE)
        info->modes |= FACET_DEVICE_MODE(FACET_MODE_HARD);
}

static void describe_driver(const struct ascend_dcmi *dcmi, struct facet_device_info *info)
{
    char version[128] = "";

    if (ASCEND_DCMI(dcmi, get_driver_version, version, sizeof version) != 0)
        return;
    version[sizeof version - 1] = '\0';
    FACET_KIT_TEXT(info->driver_version, version);
}

static void describe_chip(const struct facet_provider_instance *instance, struct ascend_chip *chip,
                          struct facet_device_info *info)
{
    info->kind = FACET_DEVICE_NPU;
    FACET_KIT_TEXT(info->vendor, "Huawei");
    describe_numbers(&instance->dcmi, chip);
    describe_model(&instance->dcmi, chip, info);
    describe_memory(&instance->dcmi, chip, info);
    describe_clock(&instance->dcmi, chip, info);
    describe_pci(&instance->dcmi, chip, info);
    describe_driver(&instance->dcmi, info);
    describe_identity(&instance->dcmi, chip, info);
    if (chip->has_logic)
        snprintf(info->address, sizeof info->address, "acl:%d", chip->logic);
    else
        snprintf(info->address, sizeof info->address, "dcmi:%d/%d", chip->card, chip->chip_number);
    info->capabilities = capabilities_of(instance, chip, info);
    describe_modes(info);
}

static enum facet_status check_uuid_is_new(const struct facet_provider_instance *instance,
                                           const struct ascend_chip *chip, const struct facet_device_info *info,
                                           struct facet_error *error)
{
    for (uint32_t i = 0; i < instance->count; i++) {
        const struct ascend_chip *other = &instance->chips[i];

        if (strcmp(instance->infos[i].uuid, info->uuid) == 0)
            return facet_kit_fail(error, FACET_CORRUPT,
                                  "card %d chip %d and card %d chip %d: expected different uuids, both have %s",
                                  other->card, other->chip_number, chip->card, chip->chip_number, info->uuid);
    }
    return FACET_OK;
}

static enum facet_status add_chip(struct facet_provider_instance *instance, int card, int chip_number,
                                  struct facet_error *error)
{
    struct facet_device_info *infos = realloc(instance->infos, (instance->count + 1) * sizeof *infos);
    if (infos)
        instance->infos = infos;
    struct ascend_chip *chips = realloc(instance->chips, (instance->count + 1) * sizeof *chips);
    if (chips)
        instance->chips = chips;
    if (!infos || !chips)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " devices", instance->count + 1);

    struct facet_device_info *info = &infos[instance->count];
    struct ascend_chip *chip = &chips[instance->count];
    *info = (struct facet_device_info){.size = sizeof *info, .index = instance->count};
    *chip = (struct ascend_chip){.card = card, .chip_number = chip_number};
    describe_chip(instance, chip, info);
    enum facet_status status = check_uuid_is_new(instance, chip, info, error);
    if (status == FACET_OK)
        instance->count++;
    return status;
}

/* A card may list its controller and its processor in addition to the chips. */
static bool is_chip(const struct ascend_dcmi *dcmi, int card, int chip_number)
{
    enum dcmi_unit unit = DCMI_UNIT_NPU;

    return ASCEND_DCMI(dcmi, get_device_type, card, chip_number, &unit) != 0 || unit == DCMI_UNIT_NPU;
}

static enum facet_status find_on_card(struct facet_provider_instance *instance, int card, struct facet_error *error)
{
    int chips = 0;
    int code = ASCEND_DCMI(&instance->dcmi, get_device_num_in_card, card, &chips);
    enum facet_status status = ascend_dcmi_status(code);

    /* A card that fell off the bus may still be listed. It is skipped, so that the other cards remain usable. */
    if (status == FACET_DEVICE_LOST)
        return FACET_OK;
    if (code)
        return ascend_dcmi_fail(error, "dcmi_get_device_num_in_card", code);
    if (chips < 0 || chips > DCMI_MAX_CHIPS)
        return facet_kit_fail(error, FACET_CORRUPT, "dcmi_get_device_num_in_card: %d chips, expected 0 to %d", chips,
                              DCMI_MAX_CHIPS);
    for (int chip_number = 0; chip_number < chips && status == FACET_OK; chip_number++) {
        if (is_chip(&instance->dcmi, card, chip_number))
            status = add_chip(instance, card, chip_number, error);
    }
    return status;
}

enum facet_status ascend_chips_find(struct facet_provider_instance *instance, struct facet_error *error)
{
    int cards[DCMI_MAX_CARDS] = {0};
    int count = 0;
    int code = ASCEND_DCMI(&instance->dcmi, get_card_list, &count, cards, DCMI_MAX_CARDS);
    enum facet_status status = ascend_dcmi_status(code);

    if (status == FACET_DEVICE_LOST) /* drivers report in this way that there is no chip */
        return FACET_OK;
    if (code)
        return ascend_dcmi_fail(error, "dcmi_get_card_list", code);
    if (count < 0 || count > DCMI_MAX_CARDS)
        return facet_kit_fail(error, FACET_CORRUPT, "dcmi_get_card_list: %d cards, expected 0 to %d", count,
                              DCMI_MAX_CARDS);
    for (int i = 0; i < count && status == FACET_OK; i++)
        status = find_on_card(instance, cards[i], error);
    return status;
}

struct text {
    char bytes[PROPERTIES_SIZE];
    size_t length;
};

/* Adds a line "key=value" when there is a value. Every value has a bounded length, so all lines fit. */
FACET_PRINTF(3, 4) static void put_property(struct text *text, const char *key, const char *format, ...)
{
    char value[300] = "";
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    if (*value)
        text->length +=
            (size_t)snprintf(text->bytes + text->length, sizeof text->bytes - text->length, "%s=%s\n", key, value);
}

static void put_memory(struct text *text, const struct ascend_dcmi *dcmi, const struct ascend_chip *chip)
{
    struct dcmi_hbm_info memory = {0};
    struct dcmi_ecc_info ecc = {0};

    if (ASCEND_DCMI(dcmi, get_device_hbm_info, chip->card, chip->chip_number, &memory) == 0 &&
        memory.clock <= MAX_CLOCK_MHZ)
        put_property(text, "clock_memory_mhz", "%u", memory.clock);
    if (ASCEND_DCMI(dcmi, get_device_ecc_info, chip->card, chip->chip_number, DCMI_COMPONENT_HBM, &ecc) == 0)
        put_property(text, "ecc", "%s", ecc.enabled ? "true" : "false");
}

enum facet_status ascend_device_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                           uint32_t capacity, uint32_t *ret_size, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, instance->count, error);
    struct text all = {0};

    if (status != FACET_OK)
        return status;
    const struct ascend_chip *chip = &instance->chips[device];
    put_property(&all, "card", "%d", chip->card);
    put_property(&all, "card_chip", "%d", chip->chip_number);
    if (chip->has_logic)
        put_property(&all, "logical_id", "%d", chip->logic);
    if (chip->has_physical)
        put_property(&all, "physical_id", "%u", chip->physical);
    put_property(&all, "chip_version", "%s", chip->chip_version);
    put_property(&all, "die", "%s", chip->die);
    put_memory(&all, &instance->dcmi, chip);
    put_property(&all, "acl_error", "%s", instance->acl_error);
    return facet_kit_text_out(all.bytes, text, capacity, ret_size, error);
}
