/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: finding capabilities, and reading the few fields that Facet uses. Never: reads beyond the given bytes. */
#include "passthrough/scan/config_space.h"

#include <facet/pci.h>

enum {
    STATUS = 0x06,
    STATUS_HAS_CAPABILITIES = 1 << 4,
    HEADER_TYPE = 0x0e,
    CAPABILITIES = 0x34,
    EXTENDED_START = 0x100,
    EXTENDED_SERIAL = 0x03,
    EXTENDED_ACS = 0x0d,
    /* The most capabilities that fit into the space; a longer walk would go in circles. */
    CAPABILITIES_MAX = (256 - 64) / 4,
    EXTENDED_MAX = (4096 - 256) / 8,
};

static uint32_t word_at(const struct config_space *config, size_t offset, size_t bytes)
{
    uint32_t value = 0;

    if (offset + bytes > config->length)
        return 0;
    for (size_t i = bytes; i > 0; i--)
        value = value << 8 | config->bytes[offset + i - 1];
    return value;
}

size_t config_space_find(const struct config_space *config, uint8_t capability)
{
    if (!(word_at(config, STATUS, 2) & STATUS_HAS_CAPABILITIES))
        return 0;

    size_t offset = word_at(config, CAPABILITIES, 1) & ~UINT32_C(3);
    for (int i = 0; i < CAPABILITIES_MAX && offset >= 0x40 && offset + 2 <= config->length; i++) {
        if (config->bytes[offset] == capability)
            return offset;
        offset = config->bytes[offset + 1] & ~UINT32_C(3);
    }
    return 0;
}

size_t config_space_next_extended(uint32_t header)
{
    size_t next = header >> 20 & ~UINT32_C(3);

    return header != UINT32_MAX && next >= EXTENDED_START ? next : 0;
}

size_t config_space_find_extended(const struct config_space *config, uint16_t capability)
{
    size_t offset = EXTENDED_START;

    for (int i = 0; i < EXTENDED_MAX && offset != 0 && offset + 4 <= config->length; i++) {
        uint32_t header = word_at(config, offset, 4);

        if (header == 0 || header == UINT32_MAX)
            return 0;
        if ((header & 0xffff) == capability)
            return offset;
        offset = config_space_next_extended(header);
    }
    return 0;
}

/* Reads the control register of access control: the controls in effect, not the supported ones. */
static uint32_t read_acs(const struct config_space *config)
{
    size_t offset = config_space_find_extended(config, EXTENDED_ACS);

    return offset ? FACET_PCI_ACS_PRESENT | (word_at(config, offset + 6, 2) & 0x7f) : 0;
}

static uint64_t read_serial(const struct config_space *config)
{
    size_t offset = config_space_find_extended(config, EXTENDED_SERIAL);

    return offset ? (uint64_t)word_at(config, offset + 8, 4) << 32 | word_at(config, offset + 4, 4) : 0;
}

/* All bytes of the header must be 0xff: those of a virtual function's ids are, but not those of its other fields. */
static bool is_lost(const struct config_space *config)
{
    for (size_t i = 0; i < CONFIG_SPACE_PUBLIC; i++)
        if (config->bytes[i] != 0xff)
            return false;
    return true;
}

bool config_space_read(const struct config_space *config, struct config_facts *ret_facts)
{
    if (config->length < CONFIG_SPACE_PUBLIC)
        return false;

    bool express = config_space_find(config, CONFIG_CAPABILITY_EXPRESS) != 0;
    bool lost = is_lost(config);
    *ret_facts = (struct config_facts){
        .is_lost = lost,
        .is_express = express && !lost,
        .header_type = lost ? 0 : config->bytes[HEADER_TYPE] & 0x7f,
        .acs = lost ? 0 : read_acs(config),
        .serial = lost ? 0 : read_serial(config),
    };
    return true;
}
