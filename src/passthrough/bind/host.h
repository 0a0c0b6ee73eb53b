/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction's access to the host: a scan of all functions, writes that cannot block it, locks, files of journals.
 *
 * Owns: the table of operations. Tests replace it by one whose operations fail, hang or die on purpose.
 * Never: interprets a write. Reads that cannot block need no operation; they use `root` directly.
 */
#ifndef FACET_PASSTHROUGH_BIND_HOST_H
#define FACET_PASSTHROUGH_BIND_HOST_H

#include <sys/types.h>

#include <facet/passthrough_bind.h>

/* A process that hangs in the kernel; its start time distinguishes it from a later process with the same number. */
struct bind_stuck {
    int64_t pid; /* 0: none */
    uint64_t start;
};

struct bind_host;

/* Each returns 0 or an errno, except `scan`. */
struct bind_host_ops {
    enum facet_status (*scan)(struct bind_host *host, struct facet_pci_snapshot **ret_snapshot,
                              struct facet_error *error);

    /* ETIMEDOUT: the write was abandoned; ret_stuck->pid is set when its process could not be killed. */
    int (*write)(struct bind_host *host, const char *path, const char *text, uint64_t deadline_ns,
                 struct bind_stuck *ret_stuck);
    int (*load)(struct bind_host *host, const char *module, uint64_t deadline_ns, struct bind_stuck *ret_stuck);

    int (*set_owner)(struct bind_host *host, const char *path, uid_t uid, gid_t gid);

    /* These operate on the directory of journals. A lock is held until its descriptor is closed. */
    int (*lock)(struct bind_host *host, const char *name, uint64_t deadline_ns, int *ret_fd);
    int (*create)(struct bind_host *host, const char *name, int *ret_fd);
    int (*append)(struct bind_host *host, int fd, const char *bytes, size_t size);
    int (*sync)(struct bind_host *host, int fd); /* `fd` may be host->state, the directory */
    int (*rename)(struct bind_host *host, const char *from, const char *to);
    int (*remove)(struct bind_host *host, const char *name);
};

struct bind_host {
    const struct bind_host_ops *ops;
    int root;          /* the host's root directory */
    int state;         /* the directory of journals; below 0: none */
    void *context;     /* for the operations of a test; NULL for bind_host_real */
    const int *locks;  /* the locks held now, by rising group; a writer that outlives this process keeps them */
    size_t lock_count; /* at most BIND_LOCKS_MAX */
};

#define BIND_LOCKS_MAX 32u

extern const struct bind_host_ops bind_host_real;

/* ---- write.c: children that make calls which may hang ---- */

int bind_write(struct bind_host *host, const char *path, const char *text, uint64_t deadline_ns,
               struct bind_stuck *ret_stuck);
int bind_load(struct bind_host *host, const char *module, uint64_t deadline_ns, struct bind_stuck *ret_stuck);

/* ---- reading ---- */

/* Whether the process still exists, by number and start time. */
bool bind_is_alive(const struct bind_host *host, const struct bind_stuck *stuck);
uint64_t bind_start_of(int root, int64_t pid); /* a process's start time; 0: it does not exist */

/* The owner of a file, as "0:0"; empty when there is none. */
void bind_read_owner(const struct bind_host *host, const char *path, char *text, size_t size);

/* The kernel's boot id, which is new after each restart; empty when the kernel does not report it. */
void bind_read_boot_id(const struct bind_host *host, char *text, size_t size);

#endif
