/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the walk over headers, parts, the dynamic table, symbols and relocations.
 * Never: reads outside the bytes, whichever offsets they contain.
 */
#include "elf_image.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "provider_kit.h"

#if defined(__x86_64__)
enum {
    MACHINE = EM_X86_64,
    R_ABSOLUTE = R_X86_64_64,
    R_DATA = R_X86_64_GLOB_DAT,
    R_JUMP = R_X86_64_JUMP_SLOT,
    R_RELATIVE = R_X86_64_RELATIVE
};
#elif defined(__aarch64__)
enum {
    MACHINE = EM_AARCH64,
    R_ABSOLUTE = R_AARCH64_ABS64,
    R_DATA = R_AARCH64_GLOB_DAT,
    R_JUMP = R_AARCH64_JUMP_SLOT,
    R_RELATIVE = R_AARCH64_RELATIVE
};
#else
#error "which relocations an object of this processor may have is not known"
#endif

enum { HEADERS_MOST = 32, DYNAMIC_MOST = 64 };
#define SPAN_MOST (UINT64_C(1) << 30)
#define PAGE      UINT64_C(4096)

/* The bytes, and the values read from them. */
struct view {
    const uint8_t *bytes;
    uint64_t size;
    uint32_t header_count, part_count;
    uint64_t headers_at; /* the offset of the program headers in the file */
    Elf64_Phdr headers[HEADERS_MOST];
    Elf64_Phdr parts[CPU_ELF_PARTS]; /* the headers of parts that are loaded */
    uint64_t dynamic[DT_NUM];        /* values by tag */
    uint64_t table, table_end;       /* addresses of the dynamic table */
    uint64_t gnu_hash, relative_count;
    bool has[DT_NUM];
    uint64_t symbol_count;
};

/* Copies `bytes` from an offset in the file. */
static bool copy_bytes(const struct view *view, uint64_t offset, void *target, uint64_t bytes)
{
    if (offset > view->size || bytes > view->size - offset)
        return false;
    memcpy(target, view->bytes + offset, bytes);
    return true;
}

/* Where bytes at an address are in the file; NULL when they are not all in one part of it. */
static const uint8_t *bytes_at(const struct view *view, uint64_t address, uint64_t bytes)
{
    for (uint32_t i = 0; i < view->part_count; i++) {
        const Elf64_Phdr *part = &view->parts[i];

        if (address >= part->p_vaddr && address - part->p_vaddr <= part->p_filesz &&
            bytes <= part->p_filesz - (address - part->p_vaddr))
            return view->bytes + part->p_offset + (address - part->p_vaddr);
    }
    return NULL;
}

static bool is_writable(const struct view *view, uint64_t address, uint64_t bytes)
{
    for (uint32_t i = 0; i < view->part_count; i++) {
        const Elf64_Phdr *part = &view->parts[i];

        if ((part->p_flags & PF_W) && address >= part->p_vaddr && address - part->p_vaddr <= part->p_memsz &&
            bytes <= part->p_memsz - (address - part->p_vaddr))
            return true;
    }
    return false;
}

/* Like bytes_at(), but only in a part that cannot be written: no relocation changes what was checked. */
static const uint8_t *constant_at(const struct view *view, uint64_t address, uint64_t bytes)
{
    return is_writable(view, address, bytes) ? NULL : bytes_at(view, address, bytes);
}

static const char *read_header(struct view *view)
{
    Elf64_Ehdr header;

    if (!copy_bytes(view, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return "no ELF object; expected a shared object compiled for the target host";
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_ident[EI_VERSION] != EV_CURRENT || header.e_version != EV_CURRENT || header.e_machine != MACHINE)
        return "an ELF object of another machine";
    if ((header.e_ident[EI_OSABI] != ELFOSABI_NONE && header.e_ident[EI_OSABI] != ELFOSABI_LINUX) ||
        header.e_ident[EI_ABIVERSION] != 0 || header.e_type != ET_DYN)
        return "no shared object";
    if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 || header.e_phnum > HEADERS_MOST ||
        !copy_bytes(view, header.e_phoff, view->headers, header.e_phnum * sizeof(Elf64_Phdr)))
        return "program headers beyond the end of the file";
    view->header_count = header.e_phnum;
    view->headers_at = header.e_phoff;
    return NULL;
}

static const char *add_part(struct view *view, const Elf64_Phdr *part)
{
    const Elf64_Phdr *before = view->part_count ? &view->parts[view->part_count - 1] : NULL;
    uint64_t begin = part->p_vaddr & ~(PAGE - 1);

    if (view->part_count == CPU_ELF_PARTS)
        return "too many parts";
    if (part->p_offset > view->size || part->p_filesz > view->size - part->p_offset || part->p_filesz > part->p_memsz)
        return "a part beyond the end; expected all of the object";
    if (part->p_vaddr > SPAN_MOST || part->p_memsz > SPAN_MOST || part->p_memsz == 0)
        return "a part of 0 bytes, or beyond 1 GiB";
    if (part->p_align < PAGE || part->p_align > SPAN_MOST || (part->p_align & (part->p_align - 1)) ||
        (part->p_vaddr - part->p_offset) % part->p_align)
        return "a part that is not aligned";
    if (before && begin < before->p_vaddr + before->p_memsz)
        return "parts that overlap, or out of order";
    if ((part->p_flags & PF_W) && (part->p_flags & PF_X))
        return "a part that can be written and executed";
    if (!(part->p_flags & PF_R))
        return "a part that cannot be read";
    view->parts[view->part_count++] = *part;
    return NULL;
}

/*
 * The other headers that the loader reads. A header that the loader would act on and a kernel has no use for is
 * refused.
 */
static const char *check_segment(const struct view *view, const Elf64_Phdr *header)
{
    switch (header->p_type) {
    case PT_LOAD:
    case PT_NULL:
    case PT_GNU_EH_FRAME:
        return NULL;
    case PT_GNU_STACK:
        return header->p_flags & PF_X ? "an executable stack" : NULL;
    case PT_PHDR: /* from here on the loader reads the program headers there */
        return constant_at(view, header->p_vaddr, view->header_count * sizeof *header) == view->bytes + view->headers_at
                   ? NULL
                   : "program headers in another place than its own header says";
    case PT_DYNAMIC:
    case PT_NOTE:
    case PT_GNU_PROPERTY:
        return bytes_at(view, header->p_vaddr, header->p_filesz) && header->p_memsz == header->p_filesz
                   ? NULL
                   : "a program header whose bytes are in no part";
    case PT_GNU_RELRO:
        return is_writable(view, header->p_vaddr, 1) && header->p_memsz <= SPAN_MOST ? NULL : "a wrong relro header";
    case PT_TLS:
        return "thread-local memory";
    default:
        return "a program header of an unknown type";
    }
}

/* The loader rounds the end of the read-only range down to a page. The range may not reach into another part. */
static const char *check_relro(const struct view *view, const Elf64_Phdr *header)
{
    for (uint32_t i = 0; header->p_type == PT_GNU_RELRO && i < view->part_count; i++) {
        const Elf64_Phdr *part = &view->parts[i];
        uint64_t end = ((part->p_vaddr + part->p_memsz + PAGE - 1) & ~(PAGE - 1));

        if (header->p_vaddr >= part->p_vaddr && header->p_vaddr < end && header->p_memsz > end - header->p_vaddr)
            return "a relro header that is too long";
    }
    return NULL;
}

static const char *read_parts(struct view *view)
{
    const char *fault = NULL;

    for (uint32_t i = 0; !fault && i < view->header_count; i++)
        if (view->headers[i].p_type == PT_LOAD)
            fault = add_part(view, &view->headers[i]);
    for (uint32_t i = 0; !fault && i < view->header_count; i++) {
        fault = check_segment(view, &view->headers[i]);
        if (!fault)
            fault = check_relro(view, &view->headers[i]);
    }
    return fault;
}

static const char *take_entry(struct view *view, const Elf64_Dyn *entry)
{
    switch (entry->d_tag) {
    case DT_STRTAB:
    case DT_SYMTAB:
    case DT_STRSZ:
    case DT_SYMENT:
    case DT_RELA:
    case DT_RELASZ:
    case DT_RELAENT:
    case DT_JMPREL:
    case DT_PLTRELSZ:
    case DT_PLTREL:
    case DT_PLTGOT:
    case DT_SONAME:
        if (view->has[entry->d_tag])
            return "an entry of the dynamic table twice";
        view->has[entry->d_tag] = true;
        view->dynamic[entry->d_tag] = entry->d_un.d_val;
        return NULL;
    case DT_GNU_HASH:
        view->gnu_hash = entry->d_un.d_ptr;
        return NULL;
    case DT_RELACOUNT:
        view->relative_count = entry->d_un.d_val;
        return NULL;
    case DT_HASH: /* the loader uses DT_GNU_HASH */
    case DT_BIND_NOW:
    case DT_SYMBOLIC:
    case DT_DEBUG:
        return NULL;
    case DT_FLAGS:
        return entry->d_un.d_val & ~(Elf64_Xword)(DF_SYMBOLIC | DF_BIND_NOW) ? "flags that a kernel has no use for"
                                                                             : NULL;
    case DT_FLAGS_1:
        return entry->d_un.d_val & ~(Elf64_Xword)DF_1_NOW ? "flags that a kernel has no use for" : NULL;
    case DT_NEEDED:
        return "a library that it depends on; expected none";
    default:
        return "an entry of the dynamic table that a kernel has no use for; link without start files";
    }
}

static const char *read_dynamic(struct view *view)
{
    const Elf64_Phdr *header = NULL;
    const char *fault = NULL;

    for (uint32_t i = 0; i < view->header_count; i++)
        if (view->headers[i].p_type == PT_DYNAMIC) {
            if (header)
                return "two dynamic tables";
            header = &view->headers[i];
        }
    if (!header || !is_writable(view, header->p_vaddr, header->p_memsz) || header->p_vaddr % sizeof(uint64_t))
        return "no dynamic table";
    view->table = header->p_vaddr;
    view->table_end = header->p_vaddr + header->p_memsz;
    for (uint64_t i = 0; !fault && i < header->p_filesz / sizeof(Elf64_Dyn); i++) {
        Elf64_Dyn entry;

        memcpy(&entry, bytes_at(view, header->p_vaddr + i * sizeof entry, sizeof entry), sizeof entry);
        if (entry.d_tag == DT_NULL)
            return NULL;
        fault = take_entry(view, &entry);
    }
    return fault ? fault : "a dynamic table without an end";
}

static uint32_t word_at(const uint8_t *bytes)
{
    uint32_t word;

    memcpy(&word, bytes, sizeof word);
    return word;
}

/* Finds the last symbol of the chains: nothing else tells the number of symbols. */
static const char *walk_chains(struct view *view, const uint8_t *buckets, uint32_t count, uint32_t first,
                               uint64_t chains)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t bucket = word_at(buckets + i * sizeof(uint32_t));

        if (bucket != 0 && bucket < first)
            return "a hash table that names symbols below its first";
        last = bucket > last ? bucket : last;
    }
    view->symbol_count = first;
    for (; last != 0; last++) {
        const uint8_t *chain = constant_at(view, chains + (last - first) * sizeof(uint32_t), sizeof(uint32_t));

        if (!chain)
            return "a hash table without an end";
        view->symbol_count = last + 1;
        if (word_at(chain) & 1)
            break;
    }
    return NULL;
}

static const char *read_hash(struct view *view)
{
    const uint8_t *header = view->gnu_hash ? constant_at(view, view->gnu_hash, 16) : NULL;

    if (!header)
        return "no GNU hash table";
    uint32_t bucket_count = word_at(header), first = word_at(header + 4), mask_count = word_at(header + 8);
    if (bucket_count == 0 || bucket_count > view->size || mask_count == 0 || mask_count > view->size ||
        (mask_count & (mask_count - 1)) || view->gnu_hash % 4)
        return "a hash table of an unlikely size";
    uint64_t masks = view->gnu_hash + 16, buckets = masks + mask_count * UINT64_C(8);
    const uint8_t *bytes = constant_at(view, buckets, bucket_count * UINT64_C(4));
    if (!constant_at(view, masks, mask_count * UINT64_C(8)) || !bytes)
        return "a hash table beyond the end";
    return walk_chains(view, bytes, bucket_count, first, buckets + bucket_count * UINT64_C(4));
}

static const char *check_symbol(const struct view *view, const Elf64_Sym *symbol)
{
    uint32_t type = ELF64_ST_TYPE(symbol->st_info), bind = ELF64_ST_BIND(symbol->st_info);

    if (symbol->st_name >= view->dynamic[DT_STRSZ])
        return "a symbol without a name";
    if (type > STT_FILE || (bind != STB_LOCAL && bind != STB_GLOBAL && bind != STB_WEAK))
        return "a symbol of a kind that a kernel has no use for";
    return symbol->st_value > SPAN_MOST ? "a symbol beyond 1 GiB" : NULL;
}

static const char *check_symbols(const struct view *view)
{
    uint64_t bytes = view->dynamic[DT_STRSZ];
    const uint8_t *strings = constant_at(view, view->dynamic[DT_STRTAB], bytes);
    const uint8_t *symbols = constant_at(view, view->dynamic[DT_SYMTAB], view->symbol_count * sizeof(Elf64_Sym));
    const char *fault = NULL;

    if (!view->has[DT_STRTAB] || !view->has[DT_SYMTAB] || bytes == 0 || !strings || strings[bytes - 1] != '\0' ||
        !symbols || view->dynamic[DT_SYMENT] != sizeof(Elf64_Sym))
        return "no table of symbols";
    if (view->has[DT_SONAME] &&
        (view->dynamic[DT_SONAME] >= bytes || strchr((const char *)strings + view->dynamic[DT_SONAME], '/')))
        return "a name that could be a path";
    for (uint64_t i = 0; !fault && i < view->symbol_count; i++) {
        Elf64_Sym symbol;

        memcpy(&symbol, symbols + i * sizeof symbol, sizeof symbol);
        fault = check_symbol(view, &symbol);
    }
    return fault;
}

static const char *check_relocations(const struct view *view, uint64_t table, uint64_t bytes)
{
    const uint8_t *relocations = constant_at(view, table, bytes);

    if (!relocations || bytes % sizeof(Elf64_Rela))
        return "a table of relocations beyond the end";
    for (uint64_t i = 0; i < bytes / sizeof(Elf64_Rela); i++) {
        Elf64_Rela relocation;

        memcpy(&relocation, relocations + i * sizeof relocation, sizeof relocation);
        uint64_t type = ELF64_R_TYPE(relocation.r_info);
        if (type != R_RELATIVE && type != R_DATA && type != R_JUMP && type != R_ABSOLUTE)
            return "a relocation of a kind that a kernel has no use for";
        if (ELF64_R_SYM(relocation.r_info) >= view->symbol_count && ELF64_R_SYM(relocation.r_info) != 0)
            return "a relocation by a symbol that it does not have";
        if (!is_writable(view, relocation.r_offset, sizeof(uint64_t)))
            return "a relocation of bytes that cannot be written";
        if (relocation.r_offset + sizeof(uint64_t) > view->table && relocation.r_offset < view->table_end)
            return "a relocation of its dynamic table";
    }
    return NULL;
}

/* The loader trusts this count of relative relocations, and ends the process when it is wrong. */
static const char *check_relative(const struct view *view)
{
    uint64_t bytes = view->dynamic[DT_RELASZ];
    const uint8_t *relocations = constant_at(view, view->dynamic[DT_RELA], bytes);

    if (view->relative_count > bytes / sizeof(Elf64_Rela))
        return "more relative relocations than relocations";
    for (uint64_t i = 0; i < view->relative_count; i++) {
        Elf64_Rela relocation;

        memcpy(&relocation, relocations + i * sizeof relocation, sizeof relocation);
        if (ELF64_R_TYPE(relocation.r_info) != R_RELATIVE)
            return "a relocation that is counted as relative and is not";
    }
    return NULL;
}

static const char *check_tables(const struct view *view)
{
    const char *fault = NULL;

    if (view->has[DT_RELA] && view->dynamic[DT_RELAENT] != sizeof(Elf64_Rela))
        return "relocations of another size than Elf64_Rela";
    if ((view->has[DT_JMPREL] || view->has[DT_PLTREL]) && view->dynamic[DT_PLTREL] != DT_RELA)
        return "relocations of another kind than DT_RELA";
    if (view->has[DT_RELA] != view->has[DT_RELASZ] || view->has[DT_JMPREL] != view->has[DT_PLTRELSZ])
        return "a table of relocations without a size";
    if (view->has[DT_PLTGOT] && !is_writable(view, view->dynamic[DT_PLTGOT], 3 * sizeof(uint64_t)))
        return "a global offset table that cannot be written";
    if (view->has[DT_RELA])
        fault = check_relocations(view, view->dynamic[DT_RELA], view->dynamic[DT_RELASZ]);
    if (!fault && view->has[DT_JMPREL])
        fault = check_relocations(view, view->dynamic[DT_JMPREL], view->dynamic[DT_PLTRELSZ]);
    return fault ? fault : check_relative(view);
}

enum facet_status cpu_elf_check(const void *bytes, uint64_t size, struct cpu_elf *ret_elf, struct facet_error *error)
{
    struct view view = {.bytes = bytes, .size = size};
    const char *fault = read_header(&view);

    if (!fault)
        fault = read_parts(&view);
    if (!fault)
        fault = read_dynamic(&view);
    if (!fault)
        fault = read_hash(&view);
    if (!fault)
        fault = check_symbols(&view);
    if (!fault)
        fault = check_tables(&view);
    if (fault)
        return facet_kit_fail(error, FACET_CORRUPT, "image of %" PRIu64 " bytes: it has %s", size, fault);
    ret_elf->count = view.part_count;
    for (uint32_t i = 0; i < view.part_count; i++)
        ret_elf->parts[i] = (struct cpu_elf_part){.at = view.parts[i].p_vaddr,
                                                  .bytes = view.parts[i].p_memsz,
                                                  .write = (view.parts[i].p_flags & PF_W) != 0,
                                                  .execute = (view.parts[i].p_flags & PF_X) != 0};
    return FACET_OK;
}
