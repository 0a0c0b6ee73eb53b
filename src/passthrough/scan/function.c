/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading the attributes in one function's sysfs directory. Never: wakes a device that sleeps. */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "passthrough/scan/config_space.h"
#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"
#include "passthrough/stuck.h"

/* ---- power, which decides what may be read ---- */

/* Whether the function is not known to be awake. A transition counts as asleep, because the kernel would make a reader
 * wait. */
static bool is_asleep(const struct facet_pci_function *function)
{
    return (function->unread[FACET_PCI_POWER] != FACET_PCI_READ &&
            function->unread[FACET_PCI_POWER] != FACET_PCI_UNREAD_ABSENT) ||
           strncmp(function->runtime_status, "suspend", 7) == 0 || strcmp(function->runtime_status, "resuming") == 0 ||
           strcmp(function->power_state, "D3hot") == 0 || strcmp(function->power_state, "D3cold") == 0;
}

/*
 * Why configuration space is not read; FACET_PCI_READ: it may be read. The kernel blocks every reader of it during a
 * reset that does not end. Error counters and the power state are kept by the kernel, and reading them never blocks.
 */
static enum facet_pci_unread config_unread_reason(const struct facet_pci_function *function)
{
    if (stuck_is(function))
        return FACET_PCI_UNREAD_STUCK;
    return is_asleep(function) ? FACET_PCI_UNREAD_ASLEEP : FACET_PCI_READ;
}

static uint8_t read_power(int directory, struct facet_pci_function *function)
{
    enum facet_pci_unread state =
        tree_read_text(directory, "power_state", function->power_state, sizeof function->power_state);
    enum facet_pci_unread status =
        tree_read_text(directory, "power/runtime_status", function->runtime_status, sizeof function->runtime_status);

    /* Older kernels have only one of the two files. */
    if (state == FACET_PCI_UNREAD_ABSENT || status == FACET_PCI_UNREAD_ABSENT)
        return (uint8_t)(state == FACET_PCI_UNREAD_ABSENT ? status : state);
    return (uint8_t)tree_worse(state, status);
}

/* ---- configuration space ---- */

static void print_serial(uint64_t serial, char ret_text[24])
{
    unsigned bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = serial >> (56 - 8 * i) & 0xff;
    snprintf(ret_text, 24, "%02x-%02x-%02x-%02x-%02x-%02x-%02x-%02x", bytes[0], bytes[1], bytes[2], bytes[3], bytes[4],
             bytes[5], bytes[6], bytes[7]);
}

/* A device answers slowly, four bytes at a time. So only the first 12 bytes of each extended capability are read, which
 * hold all fields that Facet uses. Returns the length of the space that was read. */
static size_t read_extended(int fd, uint8_t bytes[CONFIG_SPACE_SIZE])
{
    enum { BEGINNING = 12 };
    size_t offset = CONFIG_SPACE_PLAIN;
    uint32_t header;

    for (size_t i = 0; offset != 0 && i < CONFIG_SPACE_SIZE / BEGINNING; i++) {
        if (offset + BEGINNING > CONFIG_SPACE_SIZE || pread(fd, bytes + offset, BEGINNING, (off_t)offset) != BEGINNING)
            return i == 0 ? CONFIG_SPACE_PLAIN : CONFIG_SPACE_SIZE;
        memcpy(&header, bytes + offset, sizeof header);
        offset = config_space_next_extended(le32toh(header));
    }
    return CONFIG_SPACE_SIZE;
}

/* Reads the configuration space, unless the device sleeps, because the read would wake it. */
static uint8_t read_config(int directory, struct facet_pci_function *function)
{
    uint8_t bytes[CONFIG_SPACE_SIZE] = {0};
    struct config_space config = {.bytes = bytes};
    struct config_facts facts;

    if (config_unread_reason(function) != FACET_PCI_READ)
        return (uint8_t)config_unread_reason(function);
    FACET_CLEANUP_FD int fd = tree_open_file(directory, "config");
    ssize_t length = fd < 0 ? -1 : pread(fd, bytes, CONFIG_SPACE_PLAIN, 0);
    if (length < 0)
        return (uint8_t)tree_unread(errno);
    config.length = (size_t)length;
    if (config.length == CONFIG_SPACE_PLAIN && config_space_find(&config, CONFIG_CAPABILITY_EXPRESS))
        config.length = read_extended(fd, bytes);
    if (!config_space_read(&config, &facts))
        return FACET_PCI_UNREAD_MALFORMED;

    function->header_type = facts.header_type;
    function->is_express = facts.is_express;
    function->is_lost = facts.is_lost;
    function->acs = facts.acs;
    if (facts.header_type != 0)
        function->kind = FACET_PCI_KIND_BRIDGE;
    if (facts.serial != 0)
        print_serial(facts.serial, function->serial);
    return config.length > CONFIG_SPACE_PUBLIC || facts.is_lost ? FACET_PCI_READ : FACET_PCI_UNREAD_PERMISSION;
}

/* ---- link ---- */

/* Parses "16.0 GT/s PCIe" into 16000 MT/s; "Unknown" means that there is no link, and gives 0. */
static bool parse_speed(const char *text, uint32_t *ret_speed)
{
    unsigned whole, tenths;
    int end = 0;

    if (strncmp(text, "Unknown", 7) == 0)
        return true;
    if (sscanf(text, "%4u.%1u GT/s%n", &whole, &tenths, &end) != 2 || end == 0)
        return false;
    *ret_speed = whole * 1000 + tenths * 100;
    return true;
}

enum { LANES_MAX = 32 };

static enum facet_pci_unread read_one_link(int directory, const char *speed_name, const char *width_name,
                                           struct facet_pci_link *link)
{
    char speed[32];
    uint64_t width = 0;
    struct facet_pci_link found = {0};
    enum facet_pci_unread unread = tree_read_text(directory, speed_name, speed, sizeof speed);

    if (unread == FACET_PCI_READ)
        unread = tree_read_number(directory, width_name, 10, 255, &width);
    if (unread != FACET_PCI_READ)
        return unread;
    if (!parse_speed(speed, &found.speed_mts))
        return FACET_PCI_UNREAD_MALFORMED;
    found.width = found.speed_mts && width <= LANES_MAX ? (uint32_t)width : 0; /* a larger width is no answer */
    *link = found;
    return FACET_PCI_READ;
}

/*
 * The kernel reads the values of these files from the device. Newer kernels wake a sleeping device for that, and older
 * kernels read garbage from it.
 */
static uint8_t read_link(int directory, struct facet_pci_function *function)
{
    enum facet_pci_unread why_not = config_unread_reason(function);

    if (why_not != FACET_PCI_READ)
        return (uint8_t)(tree_exists(directory, "max_link_speed") ? why_not : FACET_PCI_UNREAD_ABSENT);
    enum facet_pci_unread max = read_one_link(directory, "max_link_speed", "max_link_width", &function->link_maximum);
    enum facet_pci_unread now = read_one_link(directory, "current_link_speed", "current_link_width", &function->link);

    return (uint8_t)(max != FACET_PCI_READ ? max : now);
}

/* ---- reset ---- */

static bool take_reset(const char *word, size_t length, uint32_t *methods)
{
    for (uint32_t i = 0; i < FACET_PCI_RESETS; i++) {
        const char *name = facet_pci_reset_name(UINT32_C(1) << i);

        if (strlen(name) == length && strncmp(word, name, length) == 0) {
            *methods |= UINT32_C(1) << i;
            return true;
        }
    }
    return false;
}

/*
 * An unknown word comes from a newer kernel and is ignored. Without a reset method the file is absent. Kernels before
 * 5.15 have only the file `reset`, which does not list the methods.
 */
static uint8_t read_reset(int directory, struct facet_pci_function *function)
{
    char text[128];
    enum facet_pci_unread unread = tree_read_text(directory, "reset_method", text, sizeof text);

    if (unread == FACET_PCI_UNREAD_ABSENT && !tree_exists(directory, "reset"))
        return FACET_PCI_READ;
    if (unread != FACET_PCI_READ)
        return (uint8_t)unread;
    for (const char *word = text; *word; word += strspn(word, " ")) {
        take_reset(word, strcspn(word, " "), &function->reset_methods);
        word += strcspn(word, " ");
    }
    return FACET_PCI_READ;
}

/* ---- BARs ---- */

enum {
    RESOURCE_MEMORY = 0x200,
    RESOURCE_PREFETCH = 0x2000,
    RESOURCE_64BIT = 0x100000,
};

struct bars {
    struct facet_pci_bar *bar;
    size_t next;
    bool malformed;
};

static bool take_resource(void *context, char *line)
{
    struct bars *bars = context;
    uint64_t start, end, flags;

    if (bars->next == FACET_PCI_BARS_COUNT)
        return false;
    if (sscanf(line, "0x%16" SCNx64 " 0x%16" SCNx64 " 0x%16" SCNx64, &start, &end, &flags) != 3 || end < start ||
        end - start >= INT64_MAX) {
        bars->malformed = true;
        return false;
    }
    bars->bar[bars->next++] = (struct facet_pci_bar){
        .start = start,
        .bytes = end == 0 && start == 0 ? 0 : end - start + 1,
        .is_memory = (flags & RESOURCE_MEMORY) != 0,
        .is_64bit = (flags & RESOURCE_64BIT) != 0,
        .is_prefetchable = (flags & RESOURCE_PREFETCH) != 0,
    };
    return true;
}

static uint8_t read_bars(int directory, struct facet_pci_function *function)
{
    struct bars bars = {.bar = function->bars};
    enum facet_pci_unread unread = tree_each_line(directory, "resource", take_resource, &bars);

    if (unread == FACET_PCI_READ && (bars.malformed || bars.next < FACET_PCI_BARS_COUNT - 1))
        unread = FACET_PCI_UNREAD_MALFORMED;
    if (unread != FACET_PCI_READ)
        memset(function->bars, 0, sizeof function->bars);
    return (uint8_t)unread;
}

/* The kernel reads the sizes from the device, so they are not read while it sleeps. */
static uint8_t read_resize(int directory, struct facet_pci_function *function)
{
    uint8_t result = FACET_PCI_UNREAD_ABSENT;
    char name[24];

    for (uint32_t i = 0; i < FACET_PCI_ROM; i++) {
        snprintf(name, sizeof name, "resource%u_resize", i);
        if (!function->bars[i].is_memory || !tree_exists(directory, name))
            continue;
        if (config_unread_reason(function) != FACET_PCI_READ)
            return (uint8_t)config_unread_reason(function);
        enum facet_pci_unread unread = tree_read_number(directory, name, 16, UINT64_MAX, &function->bars[i].sizes);
        result = (uint8_t)(result == FACET_PCI_UNREAD_ABSENT || unread != FACET_PCI_READ ? unread : result);
    }
    return result;
}

/* ---- errors ---- */

struct total {
    const char *word;
    uint64_t value;
    bool found;
};

static bool take_total(void *context, char *line)
{
    struct total *total = context;
    size_t length = strlen(total->word);

    if (strncmp(line, total->word, length) != 0 || line[length] != ' ')
        return true;
    const char *digits = line + length + 1;
    total->found = *digits && strspn(digits, "0123456789") == strlen(digits);
    total->value = total->found ? strtoull(digits, NULL, 10) : 0;
    return false;
}

static enum facet_pci_unread read_total(int directory, const char *name, const char *word, uint64_t *ret_value)
{
    struct total total = {.word = word};
    enum facet_pci_unread unread = tree_each_line(directory, name, take_total, &total);

    if (unread == FACET_PCI_READ && !total.found)
        return FACET_PCI_UNREAD_MALFORMED;
    *ret_value = total.value;
    return unread;
}

static uint8_t read_aer(int directory, struct facet_pci_function *function)
{
    enum facet_pci_unread unread =
        read_total(directory, "aer_dev_correctable", "TOTAL_ERR_COR", &function->aer.correctable);

    if (unread == FACET_PCI_READ)
        unread = read_total(directory, "aer_dev_nonfatal", "TOTAL_ERR_NONFATAL", &function->aer.nonfatal);
    if (unread == FACET_PCI_READ)
        unread = read_total(directory, "aer_dev_fatal", "TOTAL_ERR_FATAL", &function->aer.fatal);
    if (unread != FACET_PCI_READ)
        function->aer = (struct facet_pci_aer){0};
    return (uint8_t)unread;
}

/* ---- other attributes ---- */

static uint8_t read_numa(int directory, struct facet_pci_function *function)
{
    char text[16];
    enum facet_pci_unread unread = tree_read_text(directory, "numa_node", text, sizeof text);
    const char *digits = text[0] == '-' ? text + 1 : text;

    tree_read_text_cut(directory, "local_cpulist", function->cpus, sizeof function->cpus);
    if (unread != FACET_PCI_READ)
        return (uint8_t)unread;
    if (!isdigit((unsigned char)*digits) || strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > 6)
        return FACET_PCI_UNREAD_MALFORMED;
    function->numa_node = text[0] == '-' ? -1 : atoi(digits);
    return FACET_PCI_READ;
}

static uint8_t read_flag(int directory, const char *name, uint32_t *ret_flag)
{
    uint64_t value = 0;
    enum facet_pci_unread unread = tree_read_number(directory, name, 10, 1, &value);

    *ret_flag = (uint32_t)value;
    return (uint8_t)unread;
}

/* Prints the numbers in the form of the kernel's modalias. */
static void print_modalias(struct facet_pci_function *function)
{
    if (function->unread[FACET_PCI_IDENTITY] == FACET_PCI_READ)
        snprintf(function->modalias, sizeof function->modalias, "pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X",
                 function->vendor, function->device, function->subsystem_vendor, function->subsystem_device,
                 function->class_code >> 16, function->class_code >> 8 & 0xff, function->class_code & 0xff);
}

/* Reads the power state, which decides what else may be read, and then the configuration space. */
static void read_condition(int directory, struct facet_pci_function *function)
{
    function->unread[FACET_PCI_POWER] = read_power(directory, function);
    function->unread[FACET_PCI_CONFIG] = read_config(directory, function);
    print_modalias(function);
}

static void read_link_and_errors(int directory, struct facet_pci_function *function)
{
    function->unread[FACET_PCI_LINK] = read_link(directory, function);
    function->unread[FACET_PCI_AER] = read_aer(directory, function);
}

/* Reads the attributes that decide whether the function can be passed through. False: no memory. */
static bool read_gates(int directory, struct facet_pci_function *function)
{
    uint8_t *unread = function->unread;

    unread[FACET_PCI_RESET] = read_reset(directory, function);
    unread[FACET_PCI_BARS] = read_bars(directory, function);
    unread[FACET_PCI_BOOT_VGA] = function->class_code >> 8 == 0x0300
                                     ? read_flag(directory, "boot_vga", &function->boot_vga)
                                     : FACET_PCI_UNREAD_ABSENT;
    return scan_virtuals(directory, function);
}

/* Reads further attributes, for information. False: no memory. */
static bool read_further(int directory, struct facet_pci_function *function)
{
    function->unread[FACET_PCI_D3COLD] = read_flag(directory, "d3cold_allowed", &function->d3cold_allowed);
    function->unread[FACET_PCI_RESIZE] = read_resize(directory, function);
    function->unread[FACET_PCI_NUMA] = read_numa(directory, function);
    return scan_types(directory, function);
}

/* Every function has a configuration space, so an absent one means that the function may be gone. */
static bool has_vanished(int root, const char *name, const struct facet_pci_function *function)
{
    return function->unread[FACET_PCI_CONFIG] == FACET_PCI_UNREAD_ABSENT && scan_is_gone(root, name);
}

enum scan_outcome scan_details(int root, const char *name, enum scan_depth depth, struct facet_pci_function *function)
{
    FACET_CLEANUP_FD int directory = scan_open(root, name);

    if (directory < 0)
        return tree_unread(errno) == FACET_PCI_UNREAD_ABSENT ? SCAN_VANISHED : SCAN_DONE;
    read_condition(directory, function);
    if (depth != SCAN_DEPTH_COMPANION)
        read_link_and_errors(directory, function);
    if (depth >= SCAN_DEPTH_COMPANION && !read_gates(directory, function))
        return SCAN_NO_MEMORY;
    if (depth == SCAN_DEPTH_FULL && !read_further(directory, function))
        return SCAN_NO_MEMORY;
    return has_vanished(root, name, function) ? SCAN_VANISHED : SCAN_DONE;
}

void scan_function_free(struct facet_pci_function *function)
{
    free((void *)function->bridges);
    free((void *)function->virtuals);
    free((void *)function->types);
    free((void *)function->holders);
    free((void *)function->uses);
}
