/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: parsing, printing and comparing addresses of PCI functions. Never: checks whether such a function exists. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/pci.h>

/*
 * Reads `min` to `longest` hexadecimal digits, whose value is at most `max`, and then `end`. Returns the rest of the
 * text, or NULL when the text begins otherwise.
 */
static const char *take_part(const char *text, size_t min, size_t longest, uint64_t max, char end, uint64_t *ret_value)
{
    size_t digits = strspn(text, "0123456789abcdefABCDEF");

    if (digits < min || digits > longest || text[digits] != end)
        return NULL;
    uint64_t value = strtoull(text, NULL, 16);
    if (value > max)
        return NULL;
    *ret_value = value;
    return text + digits + (end != '\0');
}

static size_t count_of(const char *text, char byte)
{
    size_t count = 0;

    for (; *text; text++)
        count += *text == byte;
    return count;
}

enum facet_status facet_pci_address_parse(const char *text, struct facet_pci_address *ret_address,
                                          struct facet_error *error)
{
    uint64_t domain = 0, bus = 0, device = 0, function = 0;
    const char *rest = text;

    if (!text || !ret_address)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, text ? "ret_address" : "text", "must not be NULL");
    if (count_of(text, ':') == 2)
        rest = take_part(rest, 4, 8, UINT32_MAX, ':', &domain);
    if (rest)
        rest = take_part(rest, 2, 2, 0xff, ':', &bus);
    if (rest)
        rest = take_part(rest, 2, 2, 0x1f, '.', &device);
    if (rest)
        rest = take_part(rest, 1, 1, 7, '\0', &function);
    if (!rest)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "address",
                                    "\"%.40s\" is no PCI address: 0000:01:00.0 was expected, in hexadecimal digits",
                                    text);

    *ret_address = (struct facet_pci_address){
        .domain = (uint32_t)domain, .bus = (uint8_t)bus, .device = (uint8_t)device, .function = (uint8_t)function};
    return FACET_OK;
}

void facet_pci_address_print(const struct facet_pci_address *address, char ret_text[FACET_PCI_ADDRESS_SIZE])
{
    snprintf(ret_text, FACET_PCI_ADDRESS_SIZE, "%04x:%02x:%02x.%x", address->domain, address->bus, address->device,
             address->function);
}

static uint64_t order_of(const struct facet_pci_address *address)
{
    return (uint64_t)address->domain << 32 | (uint64_t)address->bus << 16 | (uint64_t)address->device << 8 |
           address->function;
}

int facet_pci_address_compare(const struct facet_pci_address *a, const struct facet_pci_address *b)
{
    uint64_t first = order_of(a), second = order_of(b);

    return first < second ? -1 : first > second;
}
