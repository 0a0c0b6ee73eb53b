/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: making images from bytes: recognizing the format, and finding the description.
 * Never: reads past the end, even if offsets or lengths in the bytes are wrong.
 */
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kernel/image.h"

#define SPIRV_MAGIC     UINT32_C(0x07230203)
#define PTX_MARK        "// facet: "
#define DESCRIPTION_MAX (UINT64_C(16) << 20)

static enum facet_status refuse_image(struct facet_error *error, const char *text)
{
    return facet_error_argument(error, FACET_CORRUPT, "image", "image: %s", text);
}

static bool is_inside(uint64_t offset, uint64_t length, size_t size)
{
    return offset <= size && length <= size - offset;
}

/* --- ELF -------------------------------------------------------------------------------------------------------- */

struct elf {
    const unsigned char *bytes;
    size_t size;
    Elf64_Ehdr header;
};

static bool elf_section(const struct elf *elf, uint32_t index, Elf64_Shdr *ret_section)
{
    if (index >= elf->header.e_shnum)
        return false;
    memcpy(ret_section, elf->bytes + elf->header.e_shoff + (uint64_t)index * sizeof *ret_section, sizeof *ret_section);
    return ret_section->sh_type == SHT_NOBITS || is_inside(ret_section->sh_offset, ret_section->sh_size, elf->size);
}

static enum facet_status elf_open(const void *bytes, size_t size, struct elf *ret_elf, struct facet_error *error)
{
    *ret_elf = (struct elf){.bytes = bytes, .size = size};
    Elf64_Ehdr *header = &ret_elf->header;

    if (size < sizeof *header)
        return refuse_image(error, "an ELF object cut off in its header");
    memcpy(header, bytes, sizeof *header);
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
        return refuse_image(error, "an ELF object; expected a 64-bit little-endian one");
    if (header->e_shnum && (header->e_shentsize != sizeof(Elf64_Shdr) ||
                            !is_inside(header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr), size)))
        return refuse_image(error, "an ELF object whose section table is not inside it");
    return FACET_OK;
}

/* Whether the section is called `name` in the section `names`, the table of names. */
static bool elf_named(const struct elf *elf, const Elf64_Shdr *names, const Elf64_Shdr *section, const char *name)
{
    uint64_t length = strlen(name) + 1;

    return names->sh_type == SHT_STRTAB && section->sh_name <= names->sh_size &&
           names->sh_size - section->sh_name >= length &&
           memcmp(elf->bytes + names->sh_offset + section->sh_name, name, length) == 0;
}

static enum facet_status elf_find(const struct elf *elf, Elf64_Shdr *ret_section, struct facet_error *error)
{
    Elf64_Shdr names, section;

    if (!elf_section(elf, elf->header.e_shstrndx, &names))
        return refuse_image(error, "an ELF object without a table of section names");
    for (uint32_t i = 0; i < elf->header.e_shnum; i++) {
        if (!elf_section(elf, i, &section))
            return refuse_image(error, "an ELF object with a section that is not inside it");
        if (section.sh_type == SHT_NOBITS || !elf_named(elf, &names, &section, FACET_HOST_IMAGE_SECTION))
            continue;
        *ret_section = section;
        return FACET_OK;
    }
    return refuse_image(error, "an ELF object without the section " FACET_HOST_IMAGE_SECTION
                               "; expected one that Facet compiled");
}

static enum facet_status parse_elf(const void *bytes, size_t size, struct facet_image **ret_image,
                                   struct facet_error *error)
{
    struct elf elf;
    Elf64_Shdr section = {0};
    enum facet_status status = elf_open(bytes, size, &elf, error);

    if (status == FACET_OK)
        status = elf_find(&elf, &section, error);
    if (status != FACET_OK)
        return status;
    const char *text = (const char *)bytes + section.sh_offset;
    uint64_t length = section.sh_size;
    /* A C string's terminator may be part of the section. */
    while (length && text[length - 1] == '\0')
        length--;
    if (length > DESCRIPTION_MAX)
        return refuse_image(error, "a description of more than 16 MiB");
    return facet_image_create(bytes, size, text, length, NULL, ret_image, error);
}

/* --- PTX -------------------------------------------------------------------------------------------------------- */

/* The line that ends before *end, without its end of line; moves *end to the line's start. */
static const char *line_before(const char *text, size_t *end, size_t *ret_length)
{
    size_t stop = *end, start;

    while (stop && (text[stop - 1] == '\n' || text[stop - 1] == '\r' || text[stop - 1] == '\0'))
        stop--;
    start = stop;
    while (start && text[start - 1] != '\n')
        start--;
    *end = start;
    *ret_length = stop - start;
    return text + start;
}

/* The description is in the last lines, all of which begin with the mark. */
static enum facet_status parse_ptx(const char *text, size_t size, struct facet_image **ret_image,
                                   struct facet_error *error)
{
    const size_t mark = strlen(PTX_MARK);
    size_t end = size, first = size, length, used = 0;

    for (const char *line = line_before(text, &end, &length); length > mark && memcmp(line, PTX_MARK, mark) == 0;
         line = line_before(text, &end, &length))
        first = end;
    if (first == size)
        return refuse_image(error,
                            "PTX without a line '" PTX_MARK "{...}' at its end; expected one that Facet compiled");
    if (size - first > DESCRIPTION_MAX)
        return refuse_image(error, "a description of more than 16 MiB");
    FACET_CLEANUP_FREE char *description = malloc(size - first + 1);
    if (!description)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for an image's description");
    for (size_t at = first; at < size;) {
        const char *stop = memchr(text + at, '\n', size - at);
        size_t next = stop ? (size_t)(stop - text) + 1 : size;
        if (next - at > mark) {
            memcpy(description + used, text + at + mark, next - at - mark);
            used += next - at - mark;
        }
        at = next;
    }
    while (used && description[used - 1] == '\0')
        used--;
    return facet_image_create(text, size, description, used, NULL, ret_image, error);
}

/* Comments and blanks come before the first directive, which must be the version. */
static bool is_ptx(const char *text, size_t size)
{
    size_t at = 0;

    while (at < size &&
           (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n' || text[at] == '/')) {
        const char *stop = text[at] == '/' ? memchr(text + at, '\n', size - at) : text + at;
        if (!stop)
            return false;
        at = (size_t)(stop - text) + 1;
    }
    return size - at > 8 && memcmp(text + at, ".version", 8) == 0;
}

static bool is_elf(const void *bytes, size_t size)
{
    return size >= SELFMAG && memcmp(bytes, ELFMAG, SELFMAG) == 0;
}

bool facet_image_is_code(const void *bytes, size_t size)
{
    return is_elf(bytes, size) || is_ptx(bytes, size);
}

/* --- SPIR-V ----------------------------------------------------------------------------------------------------- */

static enum facet_status parse_spirv(const void *bytes, size_t size, struct facet_image **ret_image,
                                     struct facet_error *error)
{
    char target[FACET_TARGET_SIZE];
    uint32_t words[5];

    if (size < sizeof words || size % sizeof words[0] != 0)
        return refuse_image(error, "SPIR-V that is cut off");
    memcpy(words, bytes, sizeof words);
    if (words[0] != SPIRV_MAGIC)
        return refuse_image(error, "SPIR-V in big-endian order; expected little-endian");
    snprintf(target, sizeof target, "spirv:%" PRIu32 ".%" PRIu32, words[1] >> 16 & 0xff, words[1] >> 8 & 0xff);
    return facet_image_create(bytes, size, NULL, 0, target, ret_image, error);
}

enum facet_status facet_image_parse(const void *bytes, size_t size, struct facet_image **ret_image,
                                    struct facet_error *error)
{
    uint32_t magic = 0;

    if (!bytes || !ret_image)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, bytes ? "ret_image" : "bytes",
                                    "%s is NULL; expected a pointer", bytes ? "ret_image" : "bytes");
    if (size > FACET_COMPILE_BYTES_MOST)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "size", "size %zu: expected at most %" PRIu64, size,
                                    FACET_COMPILE_BYTES_MOST);
    if (size >= sizeof magic)
        memcpy(&magic, bytes, sizeof magic);
    if (is_elf(bytes, size))
        return parse_elf(bytes, size, ret_image, error);
    if (magic == SPIRV_MAGIC || magic == __builtin_bswap32(SPIRV_MAGIC))
        return parse_spirv(bytes, size, ret_image, error);
    if (is_ptx(bytes, size))
        return parse_ptx(bytes, size, ret_image, error);
    return refuse_image(error, "neither an ELF object, nor PTX, nor SPIR-V");
}
