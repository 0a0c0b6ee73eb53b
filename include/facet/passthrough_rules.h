/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that are bound at each start of the machine.
 *
 * Owns: rules, one file each, and the comparison of a host with them.
 * Never: binds by an address alone. A card that was moved or exchanged is reported, and not bound.
 *
 *     facet_passthrough_rules_read(directory, &rules, &error);
 *     for (size_t i = 0; i < rules->count; i++)
 *         facet_passthrough_rule_apply(manager, &rules->rules[i], &report, &check, &error);
 *
 * Thread rule: as facet/passthrough_bind.h. Errors, besides those named: FACET_INVALID_ARGUMENT, FACET_NO_MEMORY.
 * Outputs are untouched on failure. More: docs/passthrough.md.
 */
#ifndef FACET_PASSTHROUGH_RULES_H
#define FACET_PASSTHROUGH_RULES_H

#include <facet/passthrough_bind.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FACET_PASSTHROUGH_RULE_NAME_SIZE 40u

struct facet_passthrough_rule {
    uint32_t size;
    uint32_t wish_flags; /* FACET_PASSTHROUGH_WHOLE_GROUP, FACET_PASSTHROUGH_HEADLESS */
    uint32_t flags;      /* FACET_PASSTHROUGH_RESET */
    uint32_t has_owner;
    uint32_t uid;
    uint32_t gid;
    char driver[40];                              /* empty: chosen when it is applied */
    char name[FACET_PASSTHROUGH_RULE_NAME_SIZE];  /* the name of the rule's file: "0000:01:00.0.json" */
    struct facet_passthrough_identity *functions; /* all functions that are bound together, by address; their IOMMU
                                                     groups are not stored */
    size_t function_count;
    struct facet_error failure; /* why its file cannot be read; then there are no functions */
};

struct facet_passthrough_rules {
    uint32_t size;
    uint32_t reserved;
    struct facet_passthrough_rule *rules; /* by name */
    size_t count;
};

/*
 * Reads all files of a directory that end in ".json"; a file that cannot be read becomes a rule with `failure`. Pass -1
 * for a directory that does not exist: it has no rules.
 */
FACET_API enum facet_status facet_passthrough_rules_read(int directory, struct facet_passthrough_rules **ret_rules,
                                                         struct facet_error *error);
FACET_API void facet_passthrough_rules_destroy(struct facet_passthrough_rules *rules); /* NULL is fine */

/*
 * Atomically writes the rule for the functions of a plan to bind; the address of the first function is the rule's name,
 * and an existing rule of that name is replaced. The rule stores the plan's identities: model and subsystem, and the
 * serial or else the slot, if there is one. FACET_ALREADY_EXISTS: another rule names one of the functions. FACET_IO,
 * FACET_PERMISSION, FACET_NO_SPACE.
 */
FACET_API enum facet_status facet_passthrough_rule_write(int directory, const struct facet_passthrough_plan *plan,
                                                         const struct facet_passthrough_rule *settings,
                                                         struct facet_error *error);

/* Removes the rule that names this function. FACET_NOT_FOUND: no rule names it. A bound function stays bound. */
FACET_API enum facet_status facet_passthrough_rule_remove(int directory, const struct facet_pci_address *address,
                                                          struct facet_error *error);

enum facet_passthrough_rule_state {
    FACET_PASSTHROUGH_RULE_MET = 0,     /* all functions are bound as the rule says */
    FACET_PASSTHROUGH_RULE_PENDING = 1, /* the rule can be applied */
    FACET_PASSTHROUGH_RULE_REFUSED = 2, /* the verdict is not yes, or something is in the way */
    FACET_PASSTHROUGH_RULE_DRIFT = 3,   /* the functions are not those that the rule was made for */
    FACET_PASSTHROUGH_RULE_DAMAGED = 4, /* its file cannot be read */
};
#define FACET_PASSTHROUGH_RULE_STATES 5u

FACET_API const char *facet_passthrough_rule_state_name(uint32_t state); /* "drift"; NULL when unknown */

struct facet_passthrough_rule_finding {
    uint32_t size;
    uint32_t state; /* enum facet_passthrough_rule_state */
    char text[300]; /* why, one line; empty for MET and PENDING */
};

/*
 * Compares the host with the rule, and writes nothing. `ret_plan` (may be NULL) is the plan that applying would
 * execute; NULL if the state is neither met, nor pending, nor refused by the verdict.
 */
FACET_API enum facet_status facet_passthrough_rule_check(struct facet_passthrough *manager,
                                                         const struct facet_passthrough_rule *rule,
                                                         struct facet_passthrough_rule_finding *ret_check,
                                                         struct facet_passthrough_plan **ret_plan,
                                                         struct facet_error *error);

/*
 * Binds if the check says pending; otherwise nothing is written, the check says why, and the status is FACET_OK. An
 * error is that of facet_passthrough_bind(), with its report.
 */
FACET_API enum facet_status facet_passthrough_rule_apply(struct facet_passthrough *manager,
                                                         const struct facet_passthrough_rule *rule,
                                                         struct facet_passthrough_report *report,
                                                         struct facet_passthrough_rule_finding *ret_check,
                                                         struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
