/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manager's struct, and the interfaces between its parts.
 *
 * Owns: the declarations that these files share: plan.c makes lists of steps, step.c does one step, transaction.c
 * carries a plan out, restore.c undoes it.
 * Never: is included by users of the public interface (facet/passthrough_bind.h).
 */
#ifndef FACET_PASSTHROUGH_BIND_MANAGER_H
#define FACET_PASSTHROUGH_BIND_MANAGER_H

#include "base/sized.h"
#include "passthrough/bind/journal.h"

struct facet_passthrough {
    struct bind_host host;
    struct facet_passthrough_config config;
};

/* Opens a manager with the caller's operations; facet_passthrough_open() passes the real ones. */
enum facet_status bind_open(const struct facet_passthrough_config *config, const struct bind_host_ops *ops,
                            void *context, struct facet_passthrough **ret_manager, struct facet_error *error);

void bind_progress(const struct facet_passthrough *manager, const char *format, ...) FACET_PRINTF(2, 3);

/* ---- report.c ---- */

void bind_report_begin(struct facet_passthrough_report *report);
void bind_note(struct facet_passthrough_report *report, enum facet_passthrough_note_kind kind,
               const struct facet_pci_address *address, const char *format, ...) FACET_PRINTF(4, 5);

/* Notes why a function is stuck. */
void bind_note_stuck(struct facet_passthrough_report *report, const struct facet_pci_function *function);

/* ---- variant.c ---- */

/* Chooses the variant of vfio's driver that was made for the function's model, or vfio-pci if there is none. */
void bind_choose_driver(const struct bind_host *host, const struct facet_pci_function *function, char *driver,
                        size_t size);

/* ---- place.c: a function's place (its driver and settings), and the steps from one place to another ---- */

#define BIND_DEVICES "/sys/bus/pci/devices"
#define BIND_DRIVERS "/sys/bus/pci/drivers"

void bind_fill_identity(const struct facet_pci_function *function, struct facet_passthrough_identity *identity);

/* The function at the identity's address; NULL: there is none. `ret_is_same`: it is still the same card. */
const struct facet_pci_function *bind_find(const struct facet_pci_snapshot *snapshot,
                                           const struct facet_passthrough_identity *identity, bool *ret_is_same);

/* FACET_BUSY: the function is stuck. The kernel would block a writer to the function, and its override is unknown. */
enum facet_status bind_check_stuck(const struct facet_pci_function *function, struct facet_error *error);

/* Scans once. FACET_BUSY: a function of the journal is stuck. */
enum facet_status bind_scan_settled(struct bind_host *host, const struct journal *journal,
                                    struct facet_pci_snapshot **ret_snapshot, struct facet_error *error);

void bind_place(const struct bind_host *host, const struct facet_pci_function *function, struct journal_binding *place);

/* The group's node, "/dev/vfio/17"; empty when there is no group. */
void bind_group_node(int32_t group, char *path, size_t size);

/* The node of the function itself, "/dev/vfio/devices/vfio3"; empty when there is none. */
void bind_device_node(const struct bind_host *host, const struct facet_pci_address *address, char *path, size_t size);

#define BIND_DRIVER_STEPS 4u

/*
 * Writes the steps from one driver to another: the override, the unbinding, the binding, and an override that must be
 * written last. Returns the number of steps.
 */
size_t bind_driver_steps(const struct facet_passthrough_identity *identity, const struct journal_binding *now,
                         const struct journal_binding *target, struct facet_passthrough_step steps[BIND_DRIVER_STEPS]);

/*
 * Each of the next three writes one step, and returns false when the step is not needed.
 * bind_load_step: the step that loads the target's driver, by its name, when the kernel does not have the driver.
 */
bool bind_load_step(const struct bind_host *host, const struct facet_passthrough_identity *identity,
                    const struct journal_binding *now, const struct journal_binding *target,
                    struct facet_passthrough_step *ret_step);
bool bind_power_step(const struct facet_passthrough_identity *identity, const struct journal_binding *now,
                     const struct journal_binding *target, struct facet_passthrough_step *ret_step);

/* The step that gives the group's node to the target's owner, if there is a node and it has another owner. */
bool bind_rights_step(const struct bind_host *host, const struct facet_passthrough_identity *identity,
                      const struct journal_binding *target, struct facet_passthrough_step *ret_step);

/* ---- plan.c ---- */

/* A copy of the request, from which the plan is made anew under the locks. */
struct bind_request {
    uint32_t flags;
    struct facet_passthrough_wish wish; /* wish.functions points to `addresses` */
    struct facet_pci_address *addresses;
    char driver[40]; /* empty: to be chosen */
};

struct bind_plan {
    struct facet_passthrough_plan plan; /* the public part */
    struct bind_request request;
    struct journal journal;
};

enum facet_status bind_plan_again(struct facet_passthrough *manager, const struct bind_plan *plan,
                                  struct bind_plan **ret_plan, struct facet_error *error);
bool bind_plan_has_same_functions(const struct bind_plan *a, const struct bind_plan *b);
bool bind_plan_is_same(const struct bind_plan *a, const struct bind_plan *b);

/* ---- step.c: one step ---- */

/* A running transaction. */
struct bind_run {
    struct facet_passthrough *manager;
    struct journal *journal;
    struct facet_passthrough_report *report;
    uint32_t nodes_given; /* how many nodes of vfio were given to the owner */
};

/* Does a step and verifies it: `driver` is the expected driver after UNBIND, PROBE and ATTACH. */
enum facet_status bind_step(struct bind_run *run, const struct facet_passthrough_step *step, const char *driver,
                            struct facet_error *error);

/* ---- transaction.c ---- */

/* Checks that no virtual machine has a function open: an unbinding would wait for that machine, maybe forever. */
enum facet_status bind_check_users(struct bind_host *host, const struct journal *journal, struct facet_error *error);

/* ---- restore.c ---- */

/*
 * Brings every function of the journal from its present place to its old place (the last function first), or to its
 * bound place (the first function first). Goes on when a function fails. Returns how many functions failed. Each of
 * them has a note in the report.
 */
size_t bind_restore(struct bind_run *run, bool to_old);

/* ---- lock.c ---- */

struct bind_locks {
    struct bind_host *host;
    int fds[BIND_LOCKS_MAX]; /* by rising number of the group */
    size_t count;
};

/* Takes the locks of all groups, in rising order. FACET_BUSY names the first group that another process has. */
enum facet_status bind_locks_take(struct bind_host *host, const struct facet_passthrough_identity *const *identities,
                                  size_t count, uint64_t deadline_ns, struct bind_locks *ret_locks,
                                  struct facet_error *error);
void bind_locks_give(struct bind_locks *locks);

#endif
