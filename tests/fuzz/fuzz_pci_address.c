/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing addresses of PCI functions: a text is refused, or the address can be printed and parsed again.
 */
#include <facet/pci.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_pci_address address, again;
    struct facet_error error = {0};
    char *text = fuzz_text(data, size), printed[FACET_PCI_ADDRESS_SIZE];
    enum facet_status status = facet_pci_address_parse(text, &address, &error);

    if (status) {
        fuzz_check_refusal(status, &error, "address");
    } else {
        FUZZ_ASSERT(address.device < 32 && address.function < 8 && address.reserved == 0);
        facet_pci_address_print(&address, printed);
        FUZZ_ASSERT(facet_pci_address_parse(printed, &again, NULL) == FACET_OK);
        FUZZ_ASSERT(facet_pci_address_compare(&address, &again) == 0);
        FUZZ_ASSERT(strlen(text) >= strlen("00:00.0"));
    }
    free(text);
    return 0;
}
