/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction's view of the host: a scan of all functions, writes that cannot hang it, locks, files of a journal.
 *
 * Owns: the operations, of which there is a real set and, in tests, one that fails, hangs and dies on purpose.
 * Never: knows what a write means. Plain reads go below `root`, without an operation.
 */
#ifndef FACET_PASSTHROUGH_BIND_HOST_H
#define FACET_PASSTHROUGH_BIND_HOST_H

#include <sys/types.h>

#include <facet/passthrough_bind.h>

/* A process that did not come back; the time of its start distinguishes it from a later one of its number. */
struct bind_stuck {
    int64_t pid; /* 0: none */
    uint64_t start;
};

struct bind_host;

/* Each returns 0 or an errno, except `scan`. */
struct bind_host_ops {
    enum facet_status (*scan)(struct bind_host *host, struct facet_pci_snapshot **ret_snapshot,
                              struct facet_error *error);

    /* ETIMEDOUT: given up on; if the writer could not even be killed, ret_stuck->pid is set. */
    int (*write)(struct bind_host *host, const char *path, const char *text, uint64_t deadline_ns,
                 struct bind_stuck *ret_stuck);
    int (*load)(struct bind_host *host, const char *module, uint64_t deadline_ns, struct bind_stuck *ret_stuck);

    int (*set_owner)(struct bind_host *host, const char *path, uid_t uid, gid_t gid);

    /* The rest is in the directory of journals. A lock is held until its descriptor is closed. */
    int (*lock)(struct bind_host *host, const char *name, uint64_t deadline_ns, int *ret_fd);
    int (*create)(struct bind_host *host, const char *name, int *ret_fd);
    int (*append)(struct bind_host *host, int fd, const char *bytes, size_t size);
    int (*sync)(struct bind_host *host, int fd); /* the directory's is host->state */
    int (*rename)(struct bind_host *host, const char *from, const char *to);
    int (*remove)(struct bind_host *host, const char *name);
};

struct bind_host {
    const struct bind_host_ops *ops;
    int root;
    int state;
    void *context;     /* of the operations; the real ones have none */
    const int *locks;  /* held now, in rising order: a writer that outlives us keeps them until it has come back */
    size_t lock_count; /* at most BIND_LOCKS_MAX */
};

#define BIND_LOCKS_MAX 32u

extern const struct bind_host_ops bind_host_real;

/* ---- write.c: children that may hang in our place ---- */

int bind_write(struct bind_host *host, const char *path, const char *text, uint64_t deadline_ns,
               struct bind_stuck *ret_stuck);
int bind_load(struct bind_host *host, const char *module, uint64_t deadline_ns, struct bind_stuck *ret_stuck);

/* ---- reading ---- */

/* Whether that very process still exists. */
bool bind_is_alive(const struct bind_host *host, const struct bind_stuck *stuck);
uint64_t bind_start_of(int root, int64_t pid); /* 0: not there */

/* The owner of a file, as "0:0"; empty when there is none. */
void bind_read_owner(const struct bind_host *host, const char *path, char *text, size_t size);

/* Names this run of the machine; empty when the kernel does not report it. */
void bind_read_boot_id(const struct bind_host *host, char *text, size_t size);

#endif
