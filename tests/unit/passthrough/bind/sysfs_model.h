/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine in a temporary directory whose kernel is this file: writes to drivers, overrides and nodes have the effect
 * that the kernel's own code gives them; reads are done by the real code.
 *
 * Owns: this model of the kernel, and the ways in which the Nth call fails: with or without its effect, as a hang,
 * after its deadline, or as the caller's last call (kill -9). All state is in the directory, so that a second process
 * finds the same machine. Never: keeps state elsewhere.
 */
#ifndef TEST_PASSTHROUGH_SYSFS_MODEL_H
#define TEST_PASSTHROUGH_SYSFS_MODEL_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "passthrough/bind/manager.h"

enum model_fault {
    MODEL_NO_FAULT = 0,
    MODEL_FAIL,      /* EIO, without the effect */
    MODEL_FAIL_DONE, /* EIO, with the effect */
    MODEL_HANG,      /* a write never returns, and has no effect; other calls fail */
    MODEL_HANG_DONE, /* a write never returns, but has its effect */
    MODEL_LATE,      /* the writer is killed at the deadline, and the write has its effect nevertheless */
    MODEL_KILL,      /* the caller dies before the call */
    MODEL_KILL_DONE, /* the caller dies after the call */
    MODEL_FAULTS,
};

struct model {
    char path[64];
    int root, state;
    unsigned calls;     /* counted since machine_arm() */
    unsigned fault_at;  /* the number of the call that fails; 0: none */
    bool keeps_failing; /* the calls after `fault_at` fail, too */
    bool only_writes;   /* only writes count as calls */
    enum model_fault fault;
    unsigned writes;                                       /* that reached the kernel */
    uint64_t deadline_ns;                                  /* of the last write */
    void (*before)(struct model *model, const char *what); /* called before each operation; NULL: nothing */
    void *user;
};

/* ---- files ---- */

static inline void model_text(int at, const char *path, const char *text)
{
    int fd = openat(at, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
    close(fd);
}

static inline void model_get(int at, const char *path, char *text, size_t size)
{
    int fd = openat(at, path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, size - 1);

    text[length < 0 ? 0 : length] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (fd >= 0)
        close(fd);
}

/* Makes every missing directory of a path. */
static inline void model_folder(int at, const char *path)
{
    char part[256];

    for (const char *end = strchr(path, '/');; end = strchr(end + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", end ? (int)(end - path) : (int)strlen(path), path);
        if (part[0] && mkdirat(at, part, 0755) < 0 && errno != EEXIST)
            abort();
        if (!end)
            return;
    }
}

static inline bool model_has(const struct model *model, const char *path)
{
    struct stat status;

    return fstatat(model->root, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline const char *model_device(const char *address, const char *name)
{
    static char path[2][160];
    static int turn;

    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "sys/bus/pci/devices/%s/%s", address, name);
    return path[turn];
}

/* ---- the kernel ---- */

static inline void model_driver_of(const struct model *model, const char *address, char *driver, size_t size)
{
    char target[128];
    ssize_t length = readlinkat(model->root, model_device(address, "driver"), target, sizeof target - 1);

    driver[0] = '\0';
    if (length < 0)
        return;
    target[length] = '\0';
    snprintf(driver, size, "%s", strrchr(target, '/') + 1);
}

static inline void model_group_of(const struct model *model, const char *address, char *node, size_t size)
{
    char target[128];
    ssize_t length = readlinkat(model->root, model_device(address, "iommu_group"), target, sizeof target - 1);

    node[0] = '\0';
    if (length < 0)
        return;
    target[length] = '\0';
    snprintf(node, size, "dev/vfio/%s", strrchr(target, '/') + 1);
}

/* The node of a group exists while a driver of vfio has one of its functions. A file holds their count. */
static inline void model_count_node(const struct model *model, const char *address, int step)
{
    char node[64], counter[80], text[16];

    model_group_of(model, address, node, sizeof node);
    if (!node[0])
        return;
    snprintf(counter, sizeof counter, "model/%s", strrchr(node, '/') + 1);
    model_get(model->root, counter, text, sizeof text);
    int count = atoi(text) + step;
    snprintf(text, sizeof text, "%d", count);
    model_text(model->root, counter, text);
    if (count > 0 && !model_has(model, node))
        model_text(model->root, node, "");
    if (count == 0)
        unlinkat(model->root, node, 0);
}

static inline bool model_is_vfio(const char *driver)
{
    return strstr(driver, "vfio") != NULL;
}

static inline int model_attach(const struct model *model, const char *address, const char *driver)
{
    char path[128], broken[96];

    snprintf(path, sizeof path, "sys/bus/pci/drivers/%s", driver);
    if (!model_has(model, path))
        return ENODEV;
    snprintf(broken, sizeof broken, "model/refuses-%s", driver); /* a driver whose probe fails */
    if (model_has(model, broken))
        return EIO;
    snprintf(path, sizeof path, "../../drivers/%s", driver);
    if (symlinkat(path, model->root, model_device(address, "driver")) < 0)
        return EBUSY;
    if (model_is_vfio(driver)) {
        model_count_node(model, address, 1);
        model_text(model->root, model_device(address, "power/control"), "auto\n"); /* its setting without a driver */
    }
    return 0;
}

static inline int model_unbind(const struct model *model, const char *driver, const char *address)
{
    char now[64];

    model_driver_of(model, address, now, sizeof now);
    if (strcmp(now, driver) != 0)
        return ENODEV;
    unlinkat(model->root, model_device(address, "driver"), 0);
    if (model_is_vfio(driver)) {
        model_count_node(model, address, -1);
        model_text(model->root, model_device(address, "power/control"), "on\n");
    }
    return 0;
}

static inline void model_override_of(const struct model *model, const char *address, char *text, size_t size)
{
    model_get(model->root, model_device(address, "driver_override"), text, size);
    if (strcmp(text, "(null)") == 0)
        text[0] = '\0';
}

/* Searches for a driver by the override or else by the model, as the kernel does. The file "natural" names the driver
 * for the model. A missing driver, or a driver that refuses the device, is no error: only the missing link shows it. */
static inline int model_probe(const struct model *model, const char *address)
{
    char driver[64], natural[64];

    if (!model_has(model, model_device(address, "vendor")))
        return ENODEV;
    model_driver_of(model, address, driver, sizeof driver);
    if (driver[0])
        return 0;
    model_override_of(model, address, driver, sizeof driver);
    model_get(model->root, model_device(address, "natural"), natural, sizeof natural);
    model_attach(model, address, driver[0] ? driver : natural);
    return 0;
}

static inline int model_bind(const struct model *model, const char *driver, const char *address)
{
    char now[64], override[64], natural[64];

    model_driver_of(model, address, now, sizeof now);
    model_override_of(model, address, override, sizeof override);
    model_get(model->root, model_device(address, "natural"), natural, sizeof natural);
    if (!model_has(model, model_device(address, "vendor")))
        return ENODEV;
    if (now[0])
        return EBUSY;
    return strcmp(override[0] ? override : natural, driver) == 0 ? model_attach(model, address, driver) : ENODEV;
}

static inline int model_kernel(struct model *model, const char *path, const char *text)
{
    char driver[64], verb[64], value[80];

    snprintf(value, sizeof value, "%s", text);
    value[strcspn(value, "\n")] = '\0';
    path += *path == '/';
    model->writes++;
    if (strcmp(path, "sys/bus/pci/drivers_probe") == 0)
        return model_probe(model, value);
    if (sscanf(path, "sys/bus/pci/drivers/%63[^/]/%63s", driver, verb) == 2)
        return strcmp(verb, "bind") == 0 ? model_bind(model, driver, value) : model_unbind(model, driver, value);
    if (!model_has(model, path))
        return ENOENT;
    if (strstr(path, "/driver_override") && !value[0])
        snprintf(value, sizeof value, "(null)");
    model_text(model->root, path, value);
    return 0;
}

/* ---- faults ---- */

/* Makes a process that hangs, as /proc shows it. */
static inline void model_hang(struct model *model, struct bind_stuck *ret_stuck)
{
    *ret_stuck = (struct bind_stuck){.pid = 900001 + model->calls, .start = 4711};
    char path[64], line[128];

    snprintf(path, sizeof path, "proc/%lld", (long long)ret_stuck->pid);
    model_folder(model->root, path);
    snprintf(path, sizeof path, "proc/%lld/stat", (long long)ret_stuck->pid);
    snprintf(line, sizeof line, "%lld (wri) ter) D 1 1 1 0 -1 64 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0\n",
             (long long)ret_stuck->pid);
    model_text(model->root, path, line);
}

static inline int model_drop(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    return remove(path);
}

/* Lets all hanging writes return. */
static inline void model_return(struct model *model)
{
    char path[128];

    for (unsigned i = 0; i < 400; i++) {
        snprintf(path, sizeof path, "proc/%u/stat", 900001 + i);
        if (unlinkat(model->root, path, 0) < 0)
            continue;
        snprintf(path, sizeof path, "proc/%u", 900001 + i);
        unlinkat(model->root, path, AT_REMOVEDIR);
    }
}

static inline enum model_fault model_enter(struct bind_host *host, const char *what, bool is_write)
{
    struct model *model = host->context;

    if (model->before)
        model->before(model, what);
    if (model->only_writes && !is_write)
        return MODEL_NO_FAULT;
    model->calls++;
    if (!model->fault_at || model->calls < model->fault_at || (model->calls > model->fault_at && !model->keeps_failing))
        return MODEL_NO_FAULT;
    if (model->fault == MODEL_KILL)
        raise(SIGKILL);
    return model->fault;
}

static inline int model_leave(enum model_fault fault, int errnum)
{
    if (fault == MODEL_KILL_DONE)
        raise(SIGKILL);
    return fault == MODEL_NO_FAULT || fault == MODEL_LATE ? errnum : EIO;
}

static inline bool model_happens(enum model_fault fault)
{
    return fault != MODEL_FAIL && fault != MODEL_HANG;
}

/* ---- operations ---- */

static inline int model_op_write(struct bind_host *host, const char *path, const char *text, uint64_t deadline_ns,
                                 struct bind_stuck *ret_stuck)
{
    ((struct model *)host->context)->deadline_ns = deadline_ns;
    enum model_fault fault = model_enter(host, path, true);
    int errnum = model_happens(fault) ? model_kernel(host->context, path, text) : 0;

    if (fault == MODEL_HANG || fault == MODEL_HANG_DONE)
        model_hang(host->context, ret_stuck);
    if (fault == MODEL_HANG || fault == MODEL_HANG_DONE || fault == MODEL_LATE)
        return ETIMEDOUT;
    return model_leave(fault, errnum);
}

static inline int model_op_load(struct bind_host *host, const char *module, uint64_t deadline_ns,
                                struct bind_stuck *ret_stuck)
{
    enum model_fault fault = model_enter(host, "load", true);
    struct model *model = host->context;
    char path[128];
    bool exists;

    snprintf(path, sizeof path, "model/modules/%s", module);
    exists = model_has(model, path);
    snprintf(path, sizeof path, "sys/bus/pci/drivers/%s", module);
    if (model_happens(fault) && exists)
        model_folder(model->root, path);
    if (fault == MODEL_HANG || fault == MODEL_HANG_DONE)
        model_hang(model, ret_stuck);
    if (fault == MODEL_HANG || fault == MODEL_HANG_DONE || fault == MODEL_LATE)
        return ETIMEDOUT;
    return model_leave(fault, exists ? 0 : ENOENT);
}

static inline int model_op_own(struct bind_host *host, const char *path, uid_t uid, gid_t gid)
{
    enum model_fault fault = model_enter(host, path, true);

    path += *path == '/';
    if (!model_has(host->context, path))
        return model_leave(fault, ENOENT);
    if (model_happens(fault) && fchownat(host->root, path, uid, gid, 0) < 0)
        return errno;
    return model_leave(fault, 0);
}

static inline enum facet_status model_op_scan(struct bind_host *host, struct facet_pci_snapshot **ret_snapshot,
                                              struct facet_error *error)
{
    enum model_fault fault = model_enter(host, "scan", false);

    if (fault == MODEL_KILL_DONE)
        raise(SIGKILL);
    if (fault != MODEL_NO_FAULT)
        return facet_error_set(error, FACET_IO, "the scan fails, as the test asked");
    return bind_host_real.scan(host, ret_snapshot, error);
}

static inline int model_op_lock(struct bind_host *host, const char *name, uint64_t deadline_ns, int *ret_fd)
{
    enum model_fault fault = model_enter(host, "lock", false);

    return fault != MODEL_NO_FAULT ? model_leave(fault, EIO) : bind_host_real.lock(host, name, deadline_ns, ret_fd);
}

static inline int model_op_create(struct bind_host *host, const char *name, int *ret_fd)
{
    enum model_fault fault = model_enter(host, "create", false);

    return fault == MODEL_NO_FAULT || fault == MODEL_KILL_DONE
               ? model_leave(fault, bind_host_real.create(host, name, ret_fd))
               : ENOSPC;
}

/* A call that fails writes half of the bytes. */
static inline int model_op_append(struct bind_host *host, int fd, const char *bytes, size_t size)
{
    enum model_fault fault = model_enter(host, "append", false);

    return model_leave(fault, bind_host_real.append(host, fd, bytes, fault == MODEL_NO_FAULT ? size : size / 2));
}

static inline int model_op_sync(struct bind_host *host, int fd)
{
    return model_leave(model_enter(host, "sync", false), 0);
}

static inline int model_op_rename(struct bind_host *host, const char *from, const char *to)
{
    enum model_fault fault = model_enter(host, "rename", false);

    return model_leave(fault, model_happens(fault) ? bind_host_real.rename(host, from, to) : 0);
}

static inline int model_op_remove(struct bind_host *host, const char *name)
{
    enum model_fault fault = model_enter(host, "remove", false);

    return model_leave(fault, model_happens(fault) ? bind_host_real.remove(host, name) : 0);
}

static const struct bind_host_ops model_ops = {
    .scan = model_op_scan,
    .write = model_op_write,
    .load = model_op_load,
    .set_owner = model_op_own,
    .lock = model_op_lock,
    .create = model_op_create,
    .append = model_op_append,
    .sync = model_op_sync,
    .rename = model_op_rename,
    .remove = model_op_remove,
};

#endif
