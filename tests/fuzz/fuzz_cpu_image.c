/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing cpu_elf_check(), with which the provider cpu checks an image before the dynamic loader sees it. */
#include "../../providers/cpu/elf_image.h"

#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cpu_elf elf, untouched;
    struct facet_error error = {0};

    memset(&elf, 0x5a, sizeof elf);
    memset(&untouched, 0x5a, sizeof untouched);
    enum facet_status status = cpu_elf_check(data, size, &elf, &error);
    FUZZ_ASSERT(status == FACET_OK || status == FACET_CORRUPT);
    if (status != FACET_OK) {
        FUZZ_ASSERT(memcmp(&elf, &untouched, sizeof elf) == 0 && error.message[0] != '\0');
        return 0;
    }
    FUZZ_ASSERT(elf.count > 0 && elf.count <= CPU_ELF_PARTS);
    for (uint32_t i = 0; i < elf.count; i++) {
        FUZZ_ASSERT(!(elf.parts[i].write && elf.parts[i].execute));
        FUZZ_ASSERT(i == 0 || elf.parts[i].at >= elf.parts[i - 1].at + elf.parts[i - 1].bytes);
    }
    return 0;
}
