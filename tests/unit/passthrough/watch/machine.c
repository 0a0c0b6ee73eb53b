/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the files of the made-up machine. Never: makes attributes that no scan reads. */
#include "machine.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../../../scratch.h"

static void attribute_path(const struct machine *machine, const char *address, const char *name, char *path,
                           size_t size)
{
    assert_true(snprintf(path, size, "%s/sys/bus/pci/devices/%s%s%s", machine->path, address, name[0] ? "/" : "",
                         name) < (int)size);
}

void machine_create(struct machine *machine)
{
    static const char *const parts[] = {"/sys", "/sys/bus", "/sys/bus/pci", "/sys/bus/pci/devices"};
    char path[128];

    machine->root = scratch_folder("watch", machine->path, sizeof machine->path);
    assert_true(machine->root >= 0);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(path, sizeof path, "%s%s", machine->path, parts[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
}

void machine_destroy(struct machine *machine)
{
    assert_true(scratch_remove(machine->path));
    close(machine->root);
}

void machine_write(const struct machine *machine, const char *address, const char *name, const char *text)
{
    char path[256];

    attribute_path(machine, address, name, path, sizeof path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "%s\n", text) > 0);
    assert_int_equal(fclose(file), 0);
}

void machine_link(const struct machine *machine, const char *address, const char *name, const char *target)
{
    char path[256];

    attribute_path(machine, address, name, path, sizeof path);
    unlink(path);
    if (target)
        assert_int_equal(symlink(target, path), 0);
}

void machine_plug(const struct machine *machine, const char *address)
{
    static const char *const attributes[][2] = {
        {"vendor", "0x10de"},
        {"device", "0x2330"},
        {"class", "0x030200"},
        {"subsystem_vendor", "0x10de"},
        {"subsystem_device", "0x16c1"},
        {"revision", "0xa1"},
        {"power_state", "D0"},
        {"max_link_speed", "32.0 GT/s PCIe"},
        {"max_link_width", "16"},
        {"current_link_speed", "32.0 GT/s PCIe"},
        {"current_link_width", "16"},
        {"aer_dev_correctable", "RxErr 0\nTOTAL_ERR_COR 0"},
        {"aer_dev_nonfatal", "Undefined 0\nTOTAL_ERR_NONFATAL 0"},
        {"aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0"},
        {"sriov_totalvfs", "16"},
        {"sriov_numvfs", "0"},
    };
    char path[256];

    attribute_path(machine, address, "", path, sizeof path);
    assert_int_equal(mkdir(path, 0755), 0);
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        machine_write(machine, address, attributes[i][0], attributes[i][1]);
}

void machine_unplug(const struct machine *machine, const char *address)
{
    char path[256];

    attribute_path(machine, address, "", path, sizeof path);
    assert_true(scratch_remove(path));
}
