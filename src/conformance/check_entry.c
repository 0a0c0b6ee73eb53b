/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of the entry point, the file's exports, open and close. Never: needs a device. */
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "conformance/check.h"

static enum facet_status call_entry(struct facet_check *check, uint16_t major, uint16_t minor,
                                    const struct facet_provider **ret_provider)
{
    const struct facet_provider_host host = {
        .size = sizeof host, .abi_major = major, .abi_minor = minor, .error = &check->error};

    return check->entry(&host, ret_provider);
}

static void check_versions(struct facet_check *check)
{
    const struct facet_provider *provider = NULL, *again = NULL;

    if (!facet_check_load(check))
        return;
    EXPECT_OK(check, "entry: the host's version is accepted",
              call_entry(check, FACET_PROVIDER_ABI_MAJOR, FACET_PROVIDER_ABI_MINOR, &provider));
    EXPECT_REFUSED(check, "entry: another major version is refused", FACET_ABI_MISMATCH, &again, sizeof again,
                   call_entry(check, FACET_PROVIDER_ABI_MAJOR + 1, 0, &again));
    EXPECT_OK(check, "entry: a newer minor version is accepted",
              call_entry(check, FACET_PROVIDER_ABI_MAJOR, FACET_PROVIDER_ABI_MINOR + 50, &again));
    EXPECT_OK(check, "entry: an older minor version is accepted",
              call_entry(check, FACET_PROVIDER_ABI_MAJOR, 0, &again));
    EXPECT_TRUE(check, "entry: a second time gives the same provider", provider == again, "expected: %p\ngot: %p",
                (const void *)provider, (const void *)again);
    EXPECT_NUMBER(check, "entry: the provider states the major version", FACET_PROVIDER_ABI_MAJOR,
                  check->provider->abi_major);
}

static bool is_provider_name(const char *name)
{
    size_t length = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") : 0;

    return length > 0 && length <= 32 && name[length] == '\0' && name[0] >= 'a' && name[0] <= 'z';
}

static void check_texts(struct facet_check *check)
{
    const struct facet_provider *provider = check->provider;

    if (!provider)
        return;
    EXPECT_TRUE(check, "entry: the name matches [a-z][a-z0-9_-]{0,31}", is_provider_name(provider->name),
                "expected: a name that matches [a-z][a-z0-9_-]{0,31}\ngot: '%.40s'",
                provider->name ? provider->name : "(NULL)");
    EXPECT_TRUE(check, "entry: the version is printable",
                provider->version && provider->version[0] && facet_check_is_text(provider->version, 128),
                "expected: a version of 1 to 127 printable characters\ngot: no version, or another text");
    EXPECT_TRUE(check, "entry: the description is one printable line",
                provider->description && provider->description[0] && facet_check_is_text(provider->description, 256),
                "expected: a description of 1 to 255 printable characters\ngot: no description, or another text");
}

static void table_size(struct facet_check *check, const char *name, const void *table)
{
    uint64_t size = 0;

    if (!table)
        return;
    memcpy(&size, table, sizeof size);
    facet_check_begin(check, "entry: the table '%s' states a valid size", name);
    facet_check_judge(check, size >= 8 && size % 8 == 0 && size <= 4096,
                      "expected: the size of a struct of pointers, a multiple of 8 from 8 to 4096\ngot: %" PRIu64,
                      size);
}

static void check_tables(struct facet_check *check)
{
    const struct facet_provider *provider = check->provider;

    if (!provider)
        return;
    table_size(check, "device", provider->device);
    if (provider->size < sizeof *provider) {
        facet_check_skip(check, "entry: the tables of 1.1", "built for 1.0");
        return;
    }
    table_size(check, "partition", provider->partition);
    table_size(check, "limit", provider->limit);
    table_size(check, "metrics", provider->metrics);
    table_size(check, "container", provider->container);
    table_size(check, "snapshot", provider->snapshot);
    table_size(check, "memory", provider->memory);
    table_size(check, "execution", provider->execution);
}

/* Returns the `bytes` of the file that begin at `offset`; NULL: the file ends before them. */
static const void *part_of_file(const unsigned char *file, size_t file_size, uint64_t offset, uint64_t bytes)
{
    return offset <= file_size && bytes <= file_size - offset ? file + offset : NULL;
}

static bool is_exported(const Elf64_Sym *symbol)
{
    unsigned bind = ELF64_ST_BIND(symbol->st_info), visibility = ELF64_ST_VISIBILITY(symbol->st_other);

    return symbol->st_shndx != SHN_UNDEF && (bind == STB_GLOBAL || bind == STB_WEAK || bind == STB_GNU_UNIQUE) &&
           (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

/* Counts the exports in one table of dynamic symbols; sets *ret_other to the first that is not the entry point. */
static uint32_t count_exports(const unsigned char *file, size_t size, const Elf64_Shdr *sections, uint32_t index,
                              const char **ret_other)
{
    const Elf64_Shdr *table = &sections[index], *names = &sections[table->sh_link];
    const Elf64_Sym *symbols = part_of_file(file, size, table->sh_offset, table->sh_size);
    const char *texts = part_of_file(file, size, names->sh_offset, names->sh_size);
    uint32_t count = 0;

    for (size_t i = 0; symbols && texts && i < table->sh_size / sizeof *symbols; i++) {
        if (!is_exported(&symbols[i]) || symbols[i].st_name >= names->sh_size)
            continue;
        count++;
        if (strcmp(texts + symbols[i].st_name, FACET_PROVIDER_ENTRY_NAME) != 0)
            *ret_other = texts + symbols[i].st_name;
    }
    return count;
}

static uint32_t count_other_exports(const unsigned char *file, size_t size, const char **ret_other)
{
    const Elf64_Ehdr *header = part_of_file(file, size, 0, sizeof *header);

    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64)
        return 0;
    const Elf64_Shdr *sections =
        part_of_file(file, size, header->e_shoff, (uint64_t)header->e_shnum * sizeof *sections);
    for (uint32_t i = 0; sections && i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_DYNSYM && sections[i].sh_link < header->e_shnum)
            return count_exports(file, size, sections, i, ret_other);
    return 0;
}

static void check_symbols(struct facet_check *check)
{
    FACET_CLEANUP_FD int fd = open(check->path, O_RDONLY | O_CLOEXEC);
    const char *other = NULL;
    struct stat status;

    facet_check_begin(check, "entry: exactly one symbol is exported, " FACET_PROVIDER_ENTRY_NAME);
    if (fd < 0 || fstat(fd, &status) < 0 || status.st_size == 0) {
        facet_check_judge(check, false, "expected: a file to read\ngot: %s", strerror(errno));
        return;
    }
    void *file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED) {
        facet_check_judge(check, false, "expected: a file to map\ngot: %s", strerror(errno));
        return;
    }
    uint32_t count = count_other_exports(file, (size_t)status.st_size, &other);
    facet_check_judge(check, count == 1 && !other,
                      "expected: 1 exported symbol, " FACET_PROVIDER_ENTRY_NAME "\ngot: %" PRIu32
                      " exported symbols%s%.80s",
                      count, other ? ", one of them " : "", other ? other : "");
    munmap(file, (size_t)status.st_size);
}

static enum facet_status count_devices(struct facet_check *check, struct facet_provider_instance *instance,
                                       uint32_t *ret_count)
{
    enum facet_status status =
        check->device_ops.list(instance, NULL, sizeof(struct facet_device_info), 0, ret_count, &check->error);

    return status == FACET_TOO_SMALL ? FACET_OK : status;
}

static void check_instances(struct facet_check *check)
{
    const struct facet_device_ops *ops = &check->device_ops;
    struct facet_provider_instance *first = NULL, *second = NULL;
    uint32_t count = 0, again = 0;

    if (!check->provider || !ops->open || !ops->list)
        return;
    if (!EXPECT_OK(check, "device.open: opens", ops->open(&first, &check->error)))
        return;
    if (EXPECT_OK(check, "device.open: opens a second instance beside it", ops->open(&second, &check->error))) {
        EXPECT_OK(check, "device.list: the first instance lists", count_devices(check, first, &count));
        if (ops->close)
            ops->close(second);
        EXPECT_OK(check, "device.list: the first instance lists after the second was closed",
                  count_devices(check, first, &again));
        EXPECT_NUMBER(check, "device.list: the first instance finds as many devices as before", count, again);
    }
    if (ops->close)
        ops->close(first);
    EXPECT_TRUE(check, "device.close: is offered", ops->close != NULL,
                "expected: an operation device.close\ngot: NULL");
    facet_check_begin(check, "device.close: NULL is allowed");
    if (ops->close)
        ops->close(NULL);
    facet_check_judge(check, true, "%s", "");
}

static const struct facet_check_case cases[] = {
    {check_versions, 0},  {check_texts, 0},       {check_tables, 0}, {check_symbols, 0},
    {check_instances, 0}, {facet_check_leaks, 0}, {NULL, 0}};

const struct facet_check_group facet_check_entry = {
    .name = "entry", .about = "the entry point, exports, open and close", .cases = cases, .opens_itself = true};
