/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes the bytes of a function's configuration space.
 *
 * Owns: the walk over capabilities, which ends for any bytes.
 * Never: reads a device: callers pass as many bytes as could be read. Source: PCI Local Bus Specification 3.0, 6.7; PCI
 * Express Base Specification 6.0, 7.5 to 7.9.
 */
#ifndef FACET_PASSTHROUGH_SCAN_CONFIG_SPACE_H
#define FACET_PASSTHROUGH_SCAN_CONFIG_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_SPACE_SIZE   4096u
#define CONFIG_SPACE_PLAIN  256u /* extended capabilities begin here */
#define CONFIG_SPACE_PUBLIC 64u  /* the header, which is all that an unprivileged reader gets */

#define CONFIG_CAPABILITY_EXPRESS 0x10u

struct config_space {
    const uint8_t *bytes;
    size_t length;
};

/* The offset of a capability; 0 when there is none, or `length` ends before it. */
size_t config_space_find(const struct config_space *config, uint8_t capability);
size_t config_space_find_extended(const struct config_space *config, uint16_t capability);

/* The offset of the next extended capability, from a capability's header; 0: that was the last. */
size_t config_space_next_extended(uint32_t header);

struct config_facts {
    bool is_lost; /* nothing answers: all bits are set */
    bool is_express;
    uint8_t header_type;
    uint32_t acs;    /* FACET_PCI_ACS_* */
    uint64_t serial; /* 0: none */
};

/* False: the bytes are shorter than a header. */
bool config_space_read(const struct config_space *config, struct config_facts *ret_facts);

#endif
