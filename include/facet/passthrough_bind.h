/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding whole PCI functions to vfio, and giving them back to the host: all functions of a plan, or none.
 *
 * Owns: the states of a function, plans, the transaction that executes a plan, its journal, and recovery from the
 * journal. Never: binds without the answer FACET_PASSTHROUGH_YES (facet/passthrough.h); writes a driver's new_id, which
 * would give the driver all devices of a model, while each change here is to one function.
 *
 *     facet_passthrough_open(&config, &manager, &error);
 *     facet_passthrough_recover(manager, &report, &error);                 after a crash
 *     facet_passthrough_plan_bind(manager, &request, &plan, &error);      show plan->steps, plan->verdict
 *     facet_passthrough_bind(manager, plan, &report, &error);
 *
 * Thread rule: the functions of states and names are pure; one thread at a time may use a manager. Errors:
 * FACET_INVALID_ARGUMENT, FACET_NO_MEMORY, and those named. Outputs are untouched on failure. Source: the kernel's
 * Documentation/driver-api/vfio.rst; libvirt's order for host devices.
 */
#ifndef FACET_PASSTHROUGH_BIND_H
#define FACET_PASSTHROUGH_BIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/passthrough.h>
#include <facet/pci.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- states --- */

/* X(NAME, name, meaning) */
#define FACET_PASSTHROUGH_STATE_TABLE(X)                                                                               \
    X(ABSENT, absent, "not on this machine")                                                                           \
    X(HOST, host, "the host's: with one of its drivers, or with none")                                                 \
    X(DETACHING, detaching, "on its way from the host's driver to vfio")                                               \
    X(READY, ready, "with vfio, and no virtual machine has it open")                                                   \
    X(IN_VM, in_vm, "a virtual machine has it open")                                                                   \
    X(RETURNING, returning, "on its way back to the host's driver")                                                    \
    X(STUCK, stuck, "an operation on it has not returned from the kernel")                                             \
    X(LOST, lost, "listed, and does not answer")

enum facet_passthrough_state {
#define FACET_PASSTHROUGH_STATE_ENUM(NAME, name, text) FACET_PASSTHROUGH_STATE_##NAME,
    FACET_PASSTHROUGH_STATE_TABLE(FACET_PASSTHROUGH_STATE_ENUM)
#undef FACET_PASSTHROUGH_STATE_ENUM
        FACET_PASSTHROUGH_STATES
};

FACET_API const char *facet_passthrough_state_name(uint32_t state); /* "in_vm"; NULL when unknown */
FACET_API const char *facet_passthrough_state_text(uint32_t state); /* the meaning; NULL when unknown */

/*
 * Whether a function can go from one state to the other in one step. If two scans differ by more than one step, a step
 * between them was missed, or another program changed the function. False when `from` is `to`.
 */
FACET_API bool facet_passthrough_state_follows(uint32_t from, uint32_t to);

/* The facts about a function, from one scan and from the journal of its transaction. */
struct facet_passthrough_facts {
    uint32_t size;
    uint32_t is_present;
    uint32_t is_lost;
    uint32_t is_vfio;
    uint32_t is_open;      /* a process has its vfio node open */
    uint32_t is_detaching; /* the journal says that it was being bound */
    uint32_t is_returning; /* the journal says that it was being given back */
    uint32_t is_stuck;     /* a process's operation on it has not returned from the kernel */
};

/* The one state that these facts mean; FACET_PASSTHROUGH_STATE_ABSENT for NULL. */
FACET_API enum facet_passthrough_state facet_passthrough_state_of(const struct facet_passthrough_facts *facts);

/* --- the manager: its settings and its journals --- */

struct facet_passthrough;

/* Called before each step of a transaction, from the thread that runs it: to show the step that is under way. */
typedef void (*facet_passthrough_progress_func)(void *user, const char *text);

struct facet_passthrough_config {
    uint32_t size;
    uint32_t has_owner; /* vfio's nodes are given to `uid` and `gid` */
    uint32_t uid;
    uint32_t gid;
    int root;                   /* a descriptor of the directory that holds sys, proc and dev; not closed */
    int state;                  /* a descriptor of the directory of journals and locks; -1: only plans can be made */
    uint64_t write_deadline_ns; /* for each single write; 0: 10 s, and 60 s for writes that make drivers, modules and
                                   resets work */
    uint64_t lock_deadline_ns;  /* the longest wait for another process that has locked the group; 0: 5 s */
    facet_passthrough_progress_func progress; /* NULL: none */
    void *user;
};

/*
 * Opening reads and writes nothing. The directory `state` must survive a crash, and no other user may write it. Thread
 * rule: one thread at a time; any number of managers and processes may share one directory.
 */
FACET_API enum facet_status facet_passthrough_open(const struct facet_passthrough_config *config,
                                                   struct facet_passthrough **ret_manager, struct facet_error *error);
FACET_API void facet_passthrough_close(struct facet_passthrough *manager); /* NULL is fine */

/* --- plans --- */

/* Identifies a function by more than its address, because after a restart another card may have the address. */
struct facet_passthrough_identity {
    struct facet_pci_address address;
    uint16_t vendor;
    uint16_t device;
    uint16_t subsystem_vendor;
    uint16_t subsystem_device;
    int32_t group; /* -1: none */
    uint32_t reserved;
    char serial[24]; /* empty: not known */
    char slot[32];   /* empty: not known */
};

enum facet_passthrough_step_kind {
    FACET_PASSTHROUGH_STEP_LOAD = 0,     /* modprobe loads a kernel module */
    FACET_PASSTHROUGH_STEP_OVERRIDE = 1, /* sets the one driver that may have this function; empty: any driver */
    FACET_PASSTHROUGH_STEP_UNBIND = 2,   /* the driver releases the function */
    FACET_PASSTHROUGH_STEP_PROBE = 3,    /* the kernel searches for a driver, and finds the one of the override */
    FACET_PASSTHROUGH_STEP_ATTACH = 4,   /* a driver is given the function by name */
    FACET_PASSTHROUGH_STEP_POWER = 5,    /* sets whether the function may fall asleep */
    FACET_PASSTHROUGH_STEP_RESET = 6,    /* the kernel resets the function */
    FACET_PASSTHROUGH_STEP_RIGHTS = 7,   /* sets the owner of vfio's node */
};
#define FACET_PASSTHROUGH_STEPS 8u

FACET_API const char *facet_passthrough_step_name(uint32_t kind); /* "unbind"; NULL when unknown */

/* One write. */
struct facet_passthrough_step {
    uint32_t kind;                    /* enum facet_passthrough_step_kind */
    struct facet_pci_address address; /* the function that it changes */
    char path[128];                   /* "/sys/bus/pci/drivers/nvidia/unbind"; for LOAD empty; for RIGHTS the node, or
                                         the directory in which it will appear */
    char value[80];                   /* the text to write; for LOAD the module, for RIGHTS "1000:1000" */
    char before[80];                  /* the present text; for UNBIND, PROBE and ATTACH the driver; empty: nothing */
};

enum facet_passthrough_direction {
    FACET_PASSTHROUGH_BIND = 0,
    FACET_PASSTHROUGH_UNBIND = 1,
};

struct facet_passthrough_plan {
    uint32_t size;
    uint32_t direction;                           /* enum facet_passthrough_direction */
    struct facet_passthrough_identity *functions; /* all functions that are bound or given back together, by address */
    size_t function_count;
    struct facet_passthrough_step *steps; /* in order; none: nothing is to be done */
    size_t step_count;
    struct facet_passthrough_verdict *verdict; /* for binding; NULL for giving back */
};

#define FACET_PASSTHROUGH_RESET (UINT32_C(1) << 0) /* reset all functions once vfio has all of them */

struct facet_passthrough_request {
    uint32_t size;
    uint32_t flags; /* FACET_PASSTHROUGH_RESET */
    const struct facet_passthrough_wish *wish;
    const char *driver; /* NULL: the variant of vfio-pci that the kernel's modules have for a function, else vfio-pci */
};

/*
 * Plans a binding: the writes that it would make, with the present texts, and the verdict. Nothing is written. A plan
 * is made whatever the verdict. FACET_NOT_FOUND: a function is absent. FACET_BAD_STATE: Facet has already bound one of
 * the groups, but not all of these functions. FACET_CORRUPT: the journal of a group cannot be read.
 */
FACET_API enum facet_status facet_passthrough_plan_bind(struct facet_passthrough *manager,
                                                        const struct facet_passthrough_request *request,
                                                        struct facet_passthrough_plan **ret_plan,
                                                        struct facet_error *error);

/*
 * Plans to give back, by the journal of the first function, all functions that were bound together with it, each to its
 * former driver, override and power setting. FACET_NOT_FOUND: Facet did not bind the function, so its former driver is
 * unknown. FACET_INVALID_ARGUMENT: the functions were not bound together.
 */
FACET_API enum facet_status facet_passthrough_plan_unbind(struct facet_passthrough *manager,
                                                          const struct facet_pci_address *functions, size_t count,
                                                          struct facet_passthrough_plan **ret_plan,
                                                          struct facet_error *error);
FACET_API void facet_passthrough_plan_destroy(struct facet_passthrough_plan *plan); /* NULL is fine */

/* --- reports --- */

enum facet_passthrough_outcome {
    FACET_PASSTHROUGH_UNTOUCHED = 0, /* nothing was written, because nothing was to be done or the plan was refused */
    FACET_PASSTHROUGH_DONE = 1,      /* all steps were done as planned */
    FACET_PASSTHROUGH_UNDONE = 2,    /* a step failed, and all earlier steps were undone */
    FACET_PASSTHROUGH_BROKEN = 3,    /* a step failed, and not all could be undone; the notes say more, the journal
                                        stays */
};

FACET_API const char *facet_passthrough_outcome_name(uint32_t outcome); /* "undone"; NULL when unknown */

enum facet_passthrough_note_kind {
    FACET_PASSTHROUGH_NOTE_FAILED = 0,      /* the step that failed first */
    FACET_PASSTHROUGH_NOTE_UNDO_FAILED = 1, /* a step that could not be undone */
    FACET_PASSTHROUGH_NOTE_STUCK = 2, /* a write by Facet or by another process has not returned from the kernel */
    FACET_PASSTHROUGH_NOTE_GONE = 3,  /* the function is not on this machine any more */
    FACET_PASSTHROUGH_NOTE_DRIFT = 4, /* the function's card, driver or override is not the one in the journal */
    FACET_PASSTHROUGH_NOTE_ROLLED_BACK = 5, /* an interrupted transaction was undone */
    FACET_PASSTHROUGH_NOTE_ADOPTED = 6,     /* the function is bound, and the journal agrees */
    FACET_PASSTHROUGH_NOTE_STALE = 7,       /* the journal was older than the last start of the machine, and was
                                               removed */
    FACET_PASSTHROUGH_NOTE_DAMAGED = 8,     /* a journal that cannot be read, and was left alone */
    FACET_PASSTHROUGH_NOTE_BUSY = 9,        /* another process has locked the group */
    FACET_PASSTHROUGH_NOTE_HALF_BOUND = 10, /* a group of which the host and vfio each have a part */
};
#define FACET_PASSTHROUGH_NOTE_KINDS 11u

FACET_API const char *facet_passthrough_note_name(uint32_t kind); /* "undo_failed"; NULL when unknown */

struct facet_passthrough_note {
    uint32_t kind;                    /* enum facet_passthrough_note_kind */
    struct facet_pci_address address; /* of the function, or of the first of several */
    char text[240];                   /* one line */
};

#define FACET_PASSTHROUGH_NOTES 48u

/* The caller's own, like struct facet_error; it is filled whatever the returned status. */
struct facet_passthrough_report {
    uint32_t size;
    uint32_t outcome; /* enum facet_passthrough_outcome */
    uint32_t note_count;
    uint32_t notes_lost; /* notes for which there was no room; notes of kind ADOPTED are dropped first */
    struct facet_passthrough_note notes[FACET_PASSTHROUGH_NOTES];
};

/* --- binding --- */

/*
 * Executes a plan, all of it or nothing. The groups are locked, and scanned anew: if that scan gives another plan,
 * nothing is done (FACET_BAD_STATE). A plan without steps succeeds at once. Each write is made by a child process with
 * a deadline; a child that does not return in time is reported and left behind. When a step fails, the earlier steps
 * are undone in reverse order; the error is that of the first failure, and the report has each undo that failed.
 *
 * FACET_BUSY: another process has locked a group, or, for giving back, a virtual machine has a function open.
 * FACET_BAD_STATE: the verdict is not yes (the message has the first reason, the plan has all), or the host changed, or
 * an interrupted transaction has to be recovered first. FACET_TIMEOUT: a write did not return. Source: libvirt's order
 * for host devices.
 */
FACET_API enum facet_status facet_passthrough_bind(struct facet_passthrough *manager,
                                                   const struct facet_passthrough_plan *plan,
                                                   struct facet_passthrough_report *report, struct facet_error *error);
FACET_API enum facet_status facet_passthrough_unbind(struct facet_passthrough *manager,
                                                     const struct facet_passthrough_plan *plan,
                                                     struct facet_passthrough_report *report,
                                                     struct facet_error *error);

/*
 * Recovers after a crash, with a note for each journal. Interrupted transactions are undone, bound functions are
 * checked. The outcome is UNTOUCHED when nothing had to be done, DONE, or BROKEN. The status is FACET_OK for each of
 * these outcomes; an error means that the journals could not be listed.
 */
FACET_API enum facet_status facet_passthrough_recover(struct facet_passthrough *manager,
                                                      struct facet_passthrough_report *report,
                                                      struct facet_error *error);

/* --- reading states --- */

struct facet_passthrough_entry {
    struct facet_passthrough_identity identity;
    uint32_t state;      /* enum facet_passthrough_state */
    uint32_t is_ours;    /* a journal of Facet names it */
    char driver[40];     /* the present driver; empty: none */
    char old_driver[40]; /* from the journal: the former driver, which gets the function back; empty: none */
    char node[48];       /* the node that a virtual machine opens: "/dev/vfio/17"; empty: nothing */
};

struct facet_passthrough_list {
    uint32_t size;
    uint32_t reserved;
    struct facet_passthrough_entry *entries; /* accelerators, functions bound to vfio, and functions named in journals;
                                                by address */
    size_t count;
};

/* Scans, and changes nothing; `report` (may be NULL) gets unreadable journals and groups that are half bound. */
FACET_API enum facet_status facet_passthrough_look(struct facet_passthrough *manager,
                                                   struct facet_passthrough_list **ret_list,
                                                   struct facet_passthrough_report *report, struct facet_error *error);
FACET_API void facet_passthrough_list_destroy(struct facet_passthrough_list *list); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
