/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: setting the number of a function's virtual functions by the library, inside a virtual machine.
 * Never: is used outside of tests.
 *
 * usage: passthrough-virtual ADDRESS COUNT [no-probe|evict]...
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/virtual.h>

int main(int argc, char **argv)
{
    struct facet_error error = {0};
    struct facet_pci_address physical;
    uint32_t flags = 0;
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (argc < 3 || root < 0)
        return 2;
    for (int i = 3; i < argc; i++)
        flags |= strcmp(argv[i], "evict") == 0 ? FACET_SRIOV_EVICT : FACET_SRIOV_NO_PROBE;
    enum facet_status status = facet_pci_address_parse(argv[1], &physical, &error);
    if (status == FACET_OK)
        status = facet_sriov_set(root, &physical, (uint32_t)strtoul(argv[2], NULL, 10), flags, &error);
    if (status != FACET_OK)
        fprintf(stderr, "%s\n", error.message);
    return status == FACET_OK ? 0 : 1;
}
