/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools for writing a check.
 *
 * Owns: the provider under test as complete tables, assertions, and the helpers that several groups use.
 * Never: ends a group when an assertion fails: a check goes on as far as it makes sense.
 *
 * An assertion is announced before its call, so that the watcher knows during which assertion a provider died. The
 * macros keep this order: the text, then the call, then the result.
 */
#ifndef FACET_CONFORMANCE_CHECK_H
#define FACET_CONFORMANCE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/provider.h>

#include "conformance/conformance.h"

struct facet_session;

/* The part of a device's description that must stay when its provider is opened again, also in another process. */
struct facet_check_identity {
    char uuid[64], name[128];
};

/* A larger count of a list is taken as an error of the provider. */
#define FACET_CHECK_ITEMS 4096u

/* The provider under test. Operations that it does not offer are NULL here. */
struct facet_check {
    const char *path;
    const char *group;
    bool isolated;
    int report_fd;

    void *object; /* returned by dlopen(); NULL when isolated */
    struct facet_session *session;
    facet_provider_entry_func entry; /* NULL when isolated */
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    struct facet_device_ops device_ops;
    struct facet_partition_ops partition_ops;
    struct facet_limit_ops limit_ops;
    struct facet_metrics_ops metrics_ops;
    struct facet_container_ops container_ops;
    struct facet_snapshot_ops snapshot_ops;
    struct facet_memory_ops memory_ops;
    struct facet_execution_ops execution_ops;
    struct facet_math_ops math_ops;

    struct facet_device_info *devices;
    uint32_t device_count;
    uint32_t device; /* the device under test: an index of `devices` */
    /* what another process saw before; NULL: that process failed, or none ran */
    struct facet_check_identity *earlier_devices;
    uint32_t earlier_count;
    bool several_kinds; /* several kinds of devices are under test, so texts name the device */

    struct facet_error error; /* the provider's error in the present call */
    char text[160];           /* the text of the present assertion */
    bool quiet; /* one group reports the assertions common to all groups; the others report only failures */
};

/* One check of a group: a few assertions around one idea. */
struct facet_check_case {
    void (*run)(struct facet_check *check);
    uint64_t needs; /* FACET_CAN_*: run for devices of each kind that claims them; 0: run once */
};

struct facet_check_group {
    const char *name;
    const char *about;
    const struct facet_check_case *cases; /* the last has a NULL run */
    bool opens_itself;                    /* the group loads and opens by itself; not possible when isolated */
    bool opened_before;                   /* another process opens the provider first, see identity.c */
};

extern const struct facet_check_group facet_check_entry, facet_check_device, facet_check_topology, facet_check_modes,
    facet_check_partition, facet_check_limit, facet_check_metrics, facet_check_container, facet_check_memory,
    facet_check_mapping, facet_check_execution, facet_check_math, facet_check_snapshot, facet_check_threads;

/* check.c: assertions. The macros below call facet_check_begin() first. */
void facet_check_begin(struct facet_check *check, const char *format, ...) FACET_PRINTF(2, 3);
bool facet_check_judge(struct facet_check *check, bool passed, const char *format, ...) FACET_PRINTF(3, 4);
bool facet_check_status(struct facet_check *check, enum facet_status expected, enum facet_status got);
bool facet_check_number(struct facet_check *check, uint64_t expected, uint64_t got);
bool facet_check_refused(struct facet_check *check, enum facet_status expected, enum facet_status got, const void *out,
                         size_t bytes);
void facet_check_skip(struct facet_check *check, const char *text, const char *format, ...) FACET_PRINTF(3, 4);
void facet_check_note(struct facet_check *check, const char *format, ...) FACET_PRINTF(2, 3);

/* Fills an output with a pattern that begins with its size, as structs do. */
void facet_check_poison(void *out, size_t bytes);

/* True as long as `out` holds the bytes of facet_check_poison(). */
bool facet_check_untouched(const void *out, size_t bytes);

/* Each macro makes one assertion, and is true when it passed. */
#define EXPECT_STATUS(check, text, expected, call)                                                                     \
    (facet_check_begin((check), "%s", (text)), facet_check_status((check), (expected), (call)))
#define EXPECT_OK(check, text, call) EXPECT_STATUS((check), (text), FACET_OK, (call))
#define EXPECT_NUMBER(check, text, expected, got)                                                                      \
    (facet_check_begin((check), "%s", (text)), facet_check_number((check), (expected), (got)))
#define EXPECT_TRUE(check, text, condition, ...)                                                                       \
    (facet_check_begin((check), "%s", (text)), facet_check_judge((check), (condition), __VA_ARGS__))

/* The call is refused with that status and leaves its output alone. */
#define EXPECT_REFUSED(check, text, expected, out, bytes, call)                                                        \
    (facet_check_begin((check), "%s", (text)), facet_check_poison((out), (bytes)),                                     \
     facet_check_refused((check), (expected), (call), (out), (bytes)))

/* target.c: the provider in this process, or in a child behind a session. */
bool facet_check_load(struct facet_check *check);
bool facet_check_open(struct facet_check *check);
void facet_check_close(struct facet_check *check);
/* Opens the provider once more, with the same devices; false after a failed assertion. */
bool facet_check_open_second(struct facet_check *check, struct facet_check *ret_second);
void facet_check_close_second(struct facet_check *second);
bool facet_check_claims(const struct facet_check *check, uint64_t capabilities);
bool facet_check_any_claims(const struct facet_check *check, uint64_t capabilities);
static inline const struct facet_device_info *facet_check_info(const struct facet_check *check)
{
    return &check->devices[check->device];
}

/* identity.c: another process opens the provider, fills in `earlier_devices`, and ends. Called before any load. */
void facet_check_open_before(struct facet_check *check);

/* leaks.c: opens and closes again and again; a case of the group `entry`. */
void facet_check_leaks(struct facet_check *check);

/* promise.c: which operations a capability stands for. */
const char *facet_check_capability_name(uint64_t capability);
/* The first operation behind `capability` that is not offered; NULL when all are. */
const char *facet_check_missing_operation(const struct facet_check *check, uint64_t capability);
/* Clears the claims of a device whose operations are missing; the group `modes` reports these, once. */
void facet_check_drop_broken_promises(struct facet_check *check, uint32_t device);

/* list.c: the two-call rule. A list is called through an adapter that knows its other arguments. */
struct facet_check_list {
    const char *name; /* "partition.list" */
    uint32_t struct_size;
    bool changes; /* items may change between two calls, as readings do */
    enum facet_status (*call)(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                              uint32_t capacity, uint32_t *ret_count);
    const void *subject;
};

/* Returns all items, which the caller frees; NULL after a failed assertion. An empty list is not NULL. */
void *facet_check_fetch(struct facet_check *check, const struct facet_check_list *list, uint32_t *ret_count);
/* Asserts every rule of lists. */
void facet_check_list_rules(struct facet_check *check, const struct facet_check_list *list);

/* text.c: whether a text field is printable ASCII with a terminator within `size`. */
bool facet_check_is_text(const char *text, size_t size);
bool facet_check_is_worker(const char *text, size_t size);

/*
 * absent.c: an unknown device is FACET_NOT_FOUND to every operation of a table that takes one; if no device claims the
 * operation, FACET_UNSUPPORTED is allowed too.
 */
void facet_check_absent_device(struct facet_check *check, const char *table);

/* Many checks that are reported as one assertion, which fails with the first miss. */
struct facet_check_tally {
    const char *text;
    bool failed;
    char first_miss[400];
};
void facet_check_tally_miss(struct facet_check_tally *tally, const char *format, ...) FACET_PRINTF(2, 3);
void facet_check_report_tallies(struct facet_check *check, const struct facet_check_tally *tallies, size_t count);

/* Asserts that a provider keeps to the size that the caller states in a struct. `call` calls `operation`, with `out` as
 * the struct. */
typedef enum facet_status (*facet_check_fill_func)(struct facet_check *check, const void *subject, void *out);
void facet_check_struct_rules(struct facet_check *check, const char *operation, uint32_t struct_size,
                              facet_check_fill_func call, const void *subject);

/* worker.c: contexts and workers as several groups need them. */
#define FACET_CHECK_WORKER "conformance-a"
#define FACET_CHECK_OTHER  "conformance-b"
bool facet_check_context(struct facet_check *check, const char *worker, uint64_t *ret_context);
void facet_check_drop_context(struct facet_check *check, uint64_t context);
uint64_t facet_check_used(struct facet_check *check, uint64_t context);
/* The value of a line of device.properties, cut to fit; false when there is none. */
bool facet_check_property(struct facet_check *check, const char *key, char *ret_value, size_t size);

#endif
