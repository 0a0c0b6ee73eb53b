/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the choice of the variant of vfio's driver that was made for a function's model, by the list of the kernel's
 * modules. Never: loads a module.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "passthrough/bind/manager.h"
#include "passthrough/scan/tree.h"

#define DEFAULT_DRIVER "vfio-pci"

struct search {
    char wanted[96]; /* "vfio_pci:v000010DEd00002342..." */
    char module[40];
    size_t stars; /* in the best pattern so far; fewer stars are a closer match */
};

static size_t count_stars(const char *pattern)
{
    size_t count = 0;

    for (; *pattern; pattern++)
        count += *pattern == '*';
    return count;
}

/* A line is like "alias vfio_pci:v000010DEd00002342sv*sd*bc*sc*i* nvgrace_gpu_vfio_pci". */
static bool take_alias(void *context, char *line)
{
    struct search *search = context;
    char pattern[160], module[40];

    if (strncmp(line, "alias vfio_pci:", 15) != 0 || sscanf(line, "alias %159s %39s", pattern, module) != 2 ||
        !journal_is_name(module) || fnmatch(pattern, search->wanted, 0) != 0)
        return true;
    if (!search->module[0] || count_stars(pattern) < search->stars) {
        search->stars = count_stars(pattern);
        snprintf(search->module, sizeof search->module, "%s", module);
    }
    return true;
}

struct drivers {
    char name[40];
};

static bool take_driver(void *context, char *name)
{
    struct drivers *drivers = context;

    if (strncmp(name, "pci:", 4) != 0 || strlen(name + 4) >= sizeof drivers->name || !journal_is_name(name + 4))
        return true;
    snprintf(drivers->name, sizeof drivers->name, "%.39s", name + 4);
    return false;
}

/*
 * Names a module's driver. For a loaded module sysfs shows it. Otherwise the module's name is taken, with dashes in
 * place of underscores.
 */
static void name_driver(const struct bind_host *host, const char *module, char *driver, size_t size)
{
    struct drivers drivers = {.name = ""};
    char path[80];

    snprintf(path, sizeof path, "sys/module/%s/drivers", module);
    tree_each_name(host->root, path, take_driver, &drivers);
    snprintf(driver, size, "%s", drivers.name[0] ? drivers.name : module);
    for (char *at = driver; !drivers.name[0] && *at; at++)
        if (*at == '_')
            *at = '-';
}

void bind_choose_driver(const struct bind_host *host, const struct facet_pci_function *function, char *driver,
                        size_t size)
{
    struct search search = {.stars = 0};
    char release[80], path[128];

    snprintf(driver, size, "%s", DEFAULT_DRIVER);
    if (strncmp(function->modalias, "pci:", 4) != 0 ||
        tree_read_text(host->root, "proc/sys/kernel/osrelease", release, sizeof release) != FACET_PCI_READ ||
        !journal_is_name(release))
        return;
    snprintf(search.wanted, sizeof search.wanted, "vfio_%s", function->modalias);
    snprintf(path, sizeof path, "lib/modules/%s/modules.alias", release);
    tree_each_line(host->root, path, take_alias, &search);
    if (search.module[0])
        name_driver(host, search.module, driver, size);
}
