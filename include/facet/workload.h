/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads: the settings by which a container or process tree uses its devices, the hooks that supply them, and the
 * resource files.
 *
 * Owns: workload configurations and their forms for Docker, OCI, CDI and plain processes; lifecycle hooks and the order
 * in which they are called; resource files, from which reservations are rebuilt.
 * Never: starts anything, drops a setting that a form cannot say, or lets one plugin overwrite another's.
 *
 *     facet_workload_create(&workload, &error);
 *     facet_workload_add_device_node(workload, "/dev/kfd", NULL, "rw", &error);
 *     facet_workload_set(workload, FACET_WORKLOAD_ENVIRONMENT, "ROCR_VISIBLE_DEVICES", "0", &error);
 *     facet_workload_add(workload, FACET_WORKLOAD_GROUP_NAMES, "render", &error);
 *     facet_workload_render(workload, FACET_RENDER_DOCKER, NULL, &text, NULL, &error);
 *     facet_workload_destroy(workload);
 *
 * A configuration's form is schemas/accelerator-workload.schema.json; members that this version does not know stay.
 *
 * Merging (facet_workload_merge(), and the driver of the hooks): maps are merged member by member; lists are extended
 * by what they do not have yet; mounts and hooks with the same target, and device nodes with the same path, are one
 * item and merged like maps. Two that give one setting different values are in conflict: FACET_ALREADY_EXISTS names the
 * setting and both. Nothing is ever overwritten.
 *
 * Owner: the caller, of all that is created and of texts that are returned (free()). Thread rule: an object is one
 * thread's at a time. Errors, besides those named: FACET_INVALID_ARGUMENT, FACET_NO_MEMORY. After an error nothing has
 * changed. Source: Backend.AI's proposal BEP-1016; facet/spec.h lists its functions.
 */
#ifndef FACET_WORKLOAD_H
#define FACET_WORKLOAD_H

#include <facet/spec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- configurations --- */

struct facet_workload;

FACET_API enum facet_status facet_workload_create(struct facet_workload **ret_workload, struct facet_error *error);
/* As facet_spec_read(), with FACET_DOCUMENT_WORKLOAD. */
FACET_API enum facet_status facet_workload_read(const char *text, size_t bytes, struct facet_workload **ret_workload,
                                                struct facet_error *error);
FACET_API enum facet_status facet_workload_write(const struct facet_workload *workload, char **ret_text,
                                                 struct facet_error *error);
FACET_API void facet_workload_destroy(struct facet_workload *workload); /* NULL is fine */

/*
 * Settings that are one text each, or a map of them. The adders and setters check their arguments by the schema. A
 * setter replaces the present value.
 */
enum facet_workload_text {
    /* Lists: facet_workload_add(). A text that is in it already stays once. */
    FACET_WORKLOAD_CDI_DEVICES = 0,  /* "vendor.com/class=name" */
    FACET_WORKLOAD_NETWORKS = 1,     /* attached when it is created */
    FACET_WORKLOAD_GROUP_NAMES = 2,  /* "video" */
    FACET_WORKLOAD_CAPABILITIES = 3, /* "CAP_IPC_LOCK" */
    FACET_WORKLOAD_SYSTEM_CALLS = 4, /* allowed beyond the profile's */
    /* Maps: facet_workload_set() with a key. */
    FACET_WORKLOAD_ENVIRONMENT = 16,
    FACET_WORKLOAD_SYSCTLS = 17,
    FACET_WORKLOAD_RESOURCE_DATA = 18, /* the texts that write_into_kernel puts into the resource file */
    /* Single: facet_workload_set(), key NULL. */
    FACET_WORKLOAD_IPC_MODE = 32,     /* "private", "shareable", "host", "none" */
    FACET_WORKLOAD_RUNTIME = 33,      /* "nvidia" */
    FACET_WORKLOAD_CPUSET = 34,       /* "0-3,8" */
    FACET_WORKLOAD_MEMORY_NODES = 35, /* "0" */
};
FACET_API enum facet_status facet_workload_add(struct facet_workload *workload, uint32_t setting, const char *text,
                                               struct facet_error *error);
FACET_API enum facet_status facet_workload_set(struct facet_workload *workload, uint32_t setting, const char *key,
                                               const char *text, struct facet_error *error);

struct facet_workload_mount {
    uint32_t size;
    uint32_t writable;
    const char *type;           /* "bind", "volume", "tmpfs" */
    const char *source;         /* a path, or a volume's name; NULL for a tmpfs */
    const char *target;         /* absolute */
    const char *const *options; /* as of mount(8), but not ro or rw: "rprivate", "noexec", "size=64m" */
    uint32_t option_count;
    uint32_t reserved;
};
FACET_API enum facet_status facet_workload_add_mount(struct facet_workload *workload,
                                                     const struct facet_workload_mount *mount,
                                                     struct facet_error *error);

/* A device node: `path` inside, NULL: as on the host. `permissions`: of r, w, m; NULL: "rwm". */
FACET_API enum facet_status facet_workload_add_device_node(struct facet_workload *workload, const char *host_path,
                                                           const char *path, const char *permissions,
                                                           struct facet_error *error);
/* The same, for forms that need its numbers: OCI, and CDI on request. `type`: 'c' or 'b'. */
FACET_API enum facet_status facet_workload_set_device_numbers(struct facet_workload *workload, const char *path,
                                                              char type, uint32_t major, uint32_t minor,
                                                              struct facet_error *error);

#define FACET_WORKLOAD_ANY (-INT64_C(1))
/* `type`: 'a', 'c' or 'b'; a number or FACET_WORKLOAD_ANY. */
FACET_API enum facet_status facet_workload_add_cgroup_rule(struct facet_workload *workload, char type, int64_t major,
                                                           int64_t minor, const char *permissions,
                                                           struct facet_error *error);
FACET_API enum facet_status facet_workload_add_group_id(struct facet_workload *workload, uint32_t group,
                                                        struct facet_error *error);
/* -1: no limit. `name` as in getrlimit(2), without RLIMIT_ and small: "memlock". */
FACET_API enum facet_status facet_workload_set_ulimit(struct facet_workload *workload, const char *name, int64_t soft,
                                                      int64_t hard, struct facet_error *error);
/* "default", "unconfined", or "profile" with OCI's linux.seccomp as JSON. */
FACET_API enum facet_status facet_workload_set_seccomp(struct facet_workload *workload, const char *mode,
                                                       const char *profile, struct facet_error *error);
/* "2MB", "1GB": at most `bytes` of pages of this size. */
FACET_API enum facet_status facet_workload_set_hugepages(struct facet_workload *workload, const char *page,
                                                         uint64_t bytes, struct facet_error *error);
/* Bytes; `swap_bytes` is memory and swap together, at least `bytes`; -1: no limit, 0: not said. Replaces both. */
FACET_API enum facet_status facet_workload_set_memory(struct facet_workload *workload, uint64_t bytes,
                                                      int64_t swap_bytes, struct facet_error *error);
/* A shared object to preload, and where it is inside; NULL: as on the host. LD_PRELOAD is parted at colons and spaces:
 * `target` has none. */
FACET_API enum facet_status facet_workload_add_hook(struct facet_workload *workload, const char *source,
                                                    const char *target, struct facet_error *error);

/*
 * Puts `from` into `into`, if the result is right by the schema. The names are those of the two givers, for the message
 * of a conflict.
 */
FACET_API enum facet_status facet_workload_merge(struct facet_workload *into, const char *into_name,
                                                 const struct facet_workload *from, const char *from_name,
                                                 struct facet_error *error);

/* --- forms --- */

enum facet_render {
    FACET_RENDER_DOCKER = 0,      /* the body of POST /containers/create, API 1.44 or later */
    FACET_RENDER_OCI = 1,         /* the part to merge into an OCI runtime's config.json */
    FACET_RENDER_CDI = 2,         /* a CDI specification with one device */
    FACET_RENDER_ENVIRONMENT = 3, /* {"env": ["K=V", ...]} for a process on the host */
};
FACET_API const char *facet_render_name(uint32_t form); /* "docker", "oci", "cdi", "env"; NULL when unknown */

struct facet_render_options {
    uint32_t size;
    uint32_t reserved;
    const char *cdi_kind;        /* "vendor.com/class"; default "facet.dev/workload" */
    const char *cdi_device;      /* name of the device; default "default" */
    const char *seccomp_profile; /* JSON: the profile that `system_calls` are added to in Docker and OCI, when the
                                    configuration has none of its own */
};

/*
 * A setting that a form cannot express is never dropped in silence: with `ret_left` NULL it is FACET_UNSUPPORTED, and
 * named; otherwise the rest is rendered and *ret_left lists the settings that are left to the caller, empty when there
 * are none. `options` may be NULL. Hooks become mounts and LD_PRELOAD, which is joined to one of `environment`.
 */
FACET_API enum facet_status facet_workload_render(const struct facet_workload *workload, uint32_t form,
                                                  const struct facet_render_options *options, char **ret_text,
                                                  struct facet_violations **ret_left, struct facet_error *error);

/* --- lifecycle --- */

enum facet_verdict {
    FACET_VERDICT_GO = 0,
    FACET_VERDICT_DENY = 1,  /* never so: pre_create only */
    FACET_VERDICT_DEFER = 2, /* not now */
};

struct facet_lifecycle_answer {
    uint32_t verdict; /* enum facet_verdict */
    uint32_t reserved;
    uint64_t retry_ns; /* after which asking again makes sense; of a deferral */
    char reason[128];  /* of a denial or deferral, one line */
    const char *hook;  /* whose it is. Set by the driver */
};

enum facet_workload_type {
    FACET_WORKLOAD_CONTAINER = 0,
    FACET_WORKLOAD_PROCESS_TREE = 1,
};

/*
 * The arguments of hooks. Hooks keep no state of their own: after a restart they are called with the same arguments
 * again.
 */
struct facet_lifecycle_workload {
    uint32_t size;
    uint32_t type; /* enum facet_workload_type */
    const char *id;
    const struct facet_spec_grant *grants;
    uint32_t grant_count;
    uint32_t aborted; /* post_terminate: it never ran, creating it failed */
};

/*
 * Each may be NULL. `size`, `name` and `context` are the plugin's. A hook that fails, denies or defers has taken
 * nothing.
 */
struct facet_lifecycle_hook {
    uint32_t size;
    uint32_t reserved;
    const char *name;
    void *context;
    /* Adds to `config`, which is its own and empty. May deny or defer. */
    enum facet_status (*pre_create)(void *context, const struct facet_lifecycle_workload *workload,
                                    struct facet_workload *config, struct facet_lifecycle_answer *ret_answer,
                                    struct facet_error *error);
    enum facet_status (*post_create)(void *context, const struct facet_lifecycle_workload *workload,
                                     struct facet_error *error);
    /* May defer, but not deny: a workload always ends. */
    enum facet_status (*pre_terminate)(void *context, const struct facet_lifecycle_workload *workload,
                                       struct facet_lifecycle_answer *ret_answer, struct facet_error *error);
    /* Gives back everything that pre_create took. Also called, with `aborted`, to undo it. */
    enum facet_status (*post_terminate)(void *context, const struct facet_lifecycle_workload *workload,
                                        struct facet_error *error);
};

/*
 * query_workload_config: asks each hook in order and merges their settings, which are then right by the schema.
 * *ret_answer names the hook that denied or deferred; then, and after a failure or conflict (FACET_ALREADY_EXISTS), the
 * hooks that were asked are undone in reverse, and there is no configuration: *ret_workload is untouched. FACET_OK with
 * FACET_VERDICT_GO: there is one.
 */
FACET_API enum facet_status facet_lifecycle_create(const struct facet_lifecycle_hook *const *hooks, uint32_t count,
                                                   const struct facet_lifecycle_workload *workload,
                                                   struct facet_workload **ret_workload,
                                                   struct facet_lifecycle_answer *ret_answer,
                                                   struct facet_error *error);
/* After it was created. A failure undoes all of them in reverse: the caller ends the workload. */
FACET_API enum facet_status facet_lifecycle_created(const struct facet_lifecycle_hook *const *hooks, uint32_t count,
                                                    const struct facet_lifecycle_workload *workload,
                                                    struct facet_error *error);
/* Asks all, in reverse; of several deferrals the longest counts. A denial is FACET_BAD_STATE, and named. */
FACET_API enum facet_status facet_lifecycle_terminate(const struct facet_lifecycle_hook *const *hooks, uint32_t count,
                                                      const struct facet_lifecycle_workload *workload,
                                                      struct facet_lifecycle_answer *ret_answer,
                                                      struct facet_error *error);
/* Calls all hooks in reverse order, even after a failure; the first failure is returned. */
FACET_API enum facet_status facet_lifecycle_terminated(const struct facet_lifecycle_hook *const *hooks, uint32_t count,
                                                       const struct facet_lifecycle_workload *workload,
                                                       struct facet_error *error);

/* --- resource files --- */

/*
 * A workload's grants, as they are written beside it and read after a restart (write_into_kernel,
 * reconstruct_from_kernel). Order is kept. Texts are of any bytes but NUL.
 */
struct facet_resources;

enum facet_resources_kind {
    FACET_RESOURCES_OWNER = 0,      /* text[0]: whose it is; at most one */
    FACET_RESOURCES_HANDLE = 1,     /* text[0]: of the reservation; at most one */
    FACET_RESOURCES_SCRATCH = 2,    /* number: bytes; at most one */
    FACET_RESOURCES_REQUEST = 3,    /* text[0]: slot; number: micro-units that were asked for */
    FACET_RESOURCES_ALLOCATION = 4, /* text[0]: slot that is in it, also without a grant */
    FACET_RESOURCES_GRANT = 5,      /* text[0]: slot; text[1]: device; number: micro-units. Implies ALLOCATION */
    FACET_RESOURCES_UNIFIED = 6,    /* text[0]: device name; text[1]: slot */
    FACET_RESOURCES_MOUNT = 7,      /* text[0]: type; [1]: source or ""; [2]: target; [3]: options or "";
                                       number: enum facet_resources_permission */
    FACET_RESOURCES_DATA = 8,       /* text[0]: key; text[1]: value */
};

enum facet_resources_permission {
    FACET_RESOURCES_READ = 0,   /* ro */
    FACET_RESOURCES_WRITE = 1,  /* rw */
    FACET_RESOURCES_DELETE = 2, /* wd: write and delete */
};

struct facet_resources_record {
    uint32_t size;
    uint32_t kind;   /* enum facet_resources_kind */
    uint32_t places; /* decimals that a legacy file shows of `number` at least */
    uint32_t reserved;
    const char *text[4]; /* borrowed when read; NULL where the kind has none */
    int64_t number;      /* 0 or more */
};

FACET_API enum facet_status facet_resources_create(struct facet_resources **ret_resources, struct facet_error *error);
FACET_API void facet_resources_destroy(struct facet_resources *resources); /* NULL is fine */
/* Appends a copy. FACET_ALREADY_EXISTS: a second owner, handle or scratch; a slot's request, or its grant on the same
 * device, once more. */
FACET_API enum facet_status facet_resources_add(struct facet_resources *resources,
                                                const struct facet_resources_record *record, struct facet_error *error);
FACET_API uint32_t facet_resources_count(const struct facet_resources *resources);
FACET_API enum facet_status facet_resources_get(const struct facet_resources *resources, uint32_t index,
                                                struct facet_resources_record *ret_record, struct facet_error *error);

/*
 * Our own file: a line with format and version, a line a record with texts counted in bytes ("4:cuda"), and a last line
 * with the number of records and a checksum (XXH3, 128 bits) of all before it (docs/spec.md). Reading gives all that
 * was written, or FACET_CORRUPT with the damaged line; FACET_UNSUPPORTED: a later version.
 */
FACET_API enum facet_status facet_resources_format(const struct facet_resources *resources, char **ret_text,
                                                   size_t *ret_bytes, struct facet_error *error);
FACET_API enum facet_status facet_resources_parse(const char *text, size_t bytes,
                                                  struct facet_resources **ret_resources, struct facet_error *error);

/* Into the folder of a descriptor: a new file that is on the disk before it takes the old one's place, so that there is
 * always one that is whole. `name` has no slash. FACET_IO, FACET_NO_SPACE, FACET_PERMISSION. */
FACET_API enum facet_status facet_resources_save(const struct facet_resources *resources, int folder, const char *name,
                                                 struct facet_error *error);
/* FACET_NOT_FOUND, FACET_CORRUPT. */
FACET_API enum facet_status facet_resources_load(int folder, const char *name, struct facet_resources **ret_resources,
                                                 struct facet_error *error);

/* --- the legacy file, resource.txt --- */

/* The type of a slot, as facet_slot_type_name() counts them; anything else: not known. */
typedef uint32_t (*facet_slot_type_func)(void *context, const char *slot);

/*
 * KEY=VALUE lines: SCRATCH_SIZE, MOUNTS, SLOTS, UNIFIED_DEVICES, <SLOT>_SHARES, and any others, which are data. Reading
 * takes all that the format's own reader takes, and besides ids with colons, and amounts with a unit if the type is not
 * known. Writing refuses (FACET_UNSUPPORTED) text that would be read back differently: capitals in names, separators in
 * ids and paths, ends of lines, white space at ends, bytes that are no UTF-8, options; and amounts in bytes keep every
 * byte. docs/spec.md lists the differences, and why. `type` may be NULL: none is known; when writing, slots of bytes
 * are then those named "mem".
 */
FACET_API enum facet_status facet_resources_parse_legacy(const char *text, size_t bytes, facet_slot_type_func type,
                                                         void *context, struct facet_resources **ret_resources,
                                                         struct facet_error *error);
FACET_API enum facet_status facet_resources_format_legacy(const struct facet_resources *resources,
                                                          facet_slot_type_func type, void *context, char **ret_text,
                                                          struct facet_error *error);

/* "1.5g", "2KiB", "1_024", "512": bytes, exactly: FACET_INVALID_ARGUMENT for half a byte, too. And the shortest that
 * means the same: "1.5g", at most two decimals, else all digits. Returns `buffer`. */
FACET_API enum facet_status facet_spec_parse_binary(const char *text, int64_t *ret_bytes, struct facet_error *error);
FACET_API char *facet_spec_format_binary(int64_t bytes, char buffer[FACET_AMOUNT_SIZE]);

#ifdef __cplusplus
}
#endif
#endif
