/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: checking that an image is complete. Never: checks the code, which the runtime does. */
#include "image.h"

#include <elf.h>
#include <string.h>

static bool array_fits(uint64_t start, uint64_t count, uint64_t each, uint64_t bytes)
{
    return start <= bytes && (each == 0 || count <= (bytes - start) / each);
}

static bool segments_are_complete(const unsigned char *image, const Elf64_Ehdr *head, uint64_t bytes)
{
    for (uint64_t i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr segment;

        memcpy(&segment, image + head->e_phoff + i * sizeof segment, sizeof segment);
        if (!array_fits(segment.p_offset, segment.p_filesz, 1, bytes))
            return false;
    }
    return true;
}

bool rocm_image_is_complete(const void *image, uint64_t bytes)
{
    Elf64_Ehdr head;

    if (bytes < SELFMAG || memcmp(image, ELFMAG, SELFMAG) != 0)
        return true;
    if (bytes < sizeof head)
        return false;
    memcpy(&head, image, sizeof head);
    return head.e_ident[EI_CLASS] == ELFCLASS64 && (head.e_phnum == 0 || head.e_phentsize == sizeof(Elf64_Phdr)) &&
           array_fits(head.e_phoff, head.e_phnum, sizeof(Elf64_Phdr), bytes) &&
           array_fits(head.e_shoff, head.e_shnum, head.e_shentsize, bytes) &&
           segments_are_complete(image, &head, bytes);
}
