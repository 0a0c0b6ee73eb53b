/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing the walk over a configuration space: it ends, stays within the bytes, and finds only capabilities that
 * exist.
 */
#include <facet/pci.h>

#include "fuzz.h"
#include "passthrough/scan/config_space.h"

static void check_found(const struct config_space *config)
{
    for (unsigned capability = 0; capability < 256; capability++) {
        size_t at = config_space_find(config, (uint8_t)capability);

        /* capabilities follow the header of 64 bytes */
        FUZZ_ASSERT(at == 0 || (at >= 64 && at + 2 <= config->length && config->bytes[at] == capability));
    }
    for (uint16_t capability = 0; capability < 64; capability++) {
        size_t at = config_space_find_extended(config, capability);

        FUZZ_ASSERT(at == 0 ||
                    (at >= CONFIG_SPACE_PLAIN && at + 4 <= config->length && config->bytes[at] == capability));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t length = size < CONFIG_SPACE_SIZE ? size : CONFIG_SPACE_SIZE;
    char *bytes = fuzz_text(data, length);
    struct config_space config = {.bytes = (const uint8_t *)bytes, .length = length};
    struct config_facts facts;

    check_found(&config);
    FUZZ_ASSERT(config_space_read(&config, &facts) == (length >= CONFIG_SPACE_PUBLIC));
    if (length >= CONFIG_SPACE_PUBLIC) {
        FUZZ_ASSERT(facts.header_type < 0x80);
        FUZZ_ASSERT(!facts.is_lost || (facts.acs == 0 && facts.serial == 0 && !facts.is_express));
        FUZZ_ASSERT(facts.acs == 0 || facts.acs & FACET_PCI_ACS_PRESENT);
    }
    free(bytes);
    return 0;
}
