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
 * A configuration's form is schemas/accelerator-workload.schema.json; members that this version does not know are kept.
 *
 * Merging (facet_workload_merge(), and the driver of the hooks): maps are merged member by member; lists are extended
 * by the items that they do not have yet; mounts and hooks with the same target, and device nodes with the same path,
 * are one item and merged like maps. Two configurations that give one setting different values are in conflict:
 * FACET_ALREADY_EXISTS names the setting and both configurations. No value is ever overwritten.
 *
 * Owner: the caller owns all created objects, and returned texts (free them with free()). Thread rule: one thread at a
 * time may use an object. Errors, besides those named: FACET_INVALID_ARGUMENT, FACET_NO_MEMORY. After an error nothing
 * has changed. Source: Backend.AI's proposal BEP-1016; facet/spec.h lists its functions.
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
/* Like facet_spec_read(), for a document of type FACET_DOCUMENT_WORKLOAD. */
FACET_API enum facet_status facet_workload_read(const char *text, size_t bytes, struct facet_workload **ret_workload,
                                                struct facet_error *error);
FACET_API enum facet_status facet_workload_write(const struct facet_workload *workload, char **ret_text,
                                                 struct facet_error *error);
FACET_API void facet_workload_destroy(struct facet_workload *workload); /* NULL is fine */

/*
 * Settings that are a text, a list of texts, or a map of texts. The adders and setters check their arguments by the
 * schema. A setter replaces the present value.
 */
enum facet_workload_text {
    /* Lists: facet_workload_add(). A text that is in the list already is not added again. */
    FACET_WORKLOAD_CDI_DEVICES = 0,  /* "vendor.com/class=name" */
    FACET_WORKLOAD_NETWORKS = 1,     /* attached when the workload is created */
    FACET_WORKLOAD_GROUP_NAMES = 2,  /* "video" */
    FACET_WORKLOAD_CAPABILITIES = 3, /* "CAP_IPC_LOCK" */
    FACET_WORKLOAD_SYSTEM_CALLS = 4, /* allowed beyond the profile's */
    /* Maps: facet_workload_set() with a key. */
    FACET_WORKLOAD_ENVIRONMENT = 16,
    FACET_WORKLOAD_SYSCTLS = 17,
    FACET_WORKLOAD_RESOURCE_DATA = 18, /* the texts that Backend.AI's write_into_kernel puts into the resource file */
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

/* Adds a device node. `path` is its path inside the container; NULL: as on the host. `permissions` is made of r, w and
 * m; NULL: "rwm". */
FACET_API enum facet_status facet_workload_add_device_node(struct facet_workload *workload, const char *host_path,
                                                           const char *path, const char *permissions,
                                                           struct facet_error *error);
/* Sets the numbers of a device node, for the forms that need them: OCI, and CDI on request. `type`: 'c' or 'b'. */
FACET_API enum facet_status facet_workload_set_device_numbers(struct facet_workload *workload, const char *path,
                                                              char type, uint32_t major, uint32_t minor,
                                                              struct facet_error *error);

#define FACET_WORKLOAD_ANY (-INT64_C(1))
/* `type`: 'a', 'c' or 'b'. `major` and `minor`: a number or FACET_WORKLOAD_ANY. */
FACET_API enum facet_status facet_workload_add_cgroup_rule(struct facet_workload *workload, char type, int64_t major,
                                                           int64_t minor, const char *permissions,
                                                           struct facet_error *error);
FACET_API enum facet_status facet_workload_add_group_id(struct facet_workload *workload, uint32_t group,
                                                        struct facet_error *error);
/* -1: no limit. `name` as in getrlimit(2), without RLIMIT_ and in lower case: "memlock". */
FACET_API enum facet_status facet_workload_set_ulimit(struct facet_workload *workload, const char *name, int64_t soft,
                                                      int64_t hard, struct facet_error *error);
/* `mode`: "default", "unconfined", or "profile"; with the last, `profile` is OCI's linux.seccomp as JSON. */
FACET_API enum facet_status facet_workload_set_seccomp(struct facet_workload *workload, const char *mode,
                                                       const char *profile, struct facet_error *error);
/* At most `bytes` of huge pages of the size `page`: "2MB", "1GB". */
FACET_API enum facet_status facet_workload_set_hugepages(struct facet_workload *workload, const char *page,
                                                         uint64_t bytes, struct facet_error *error);
/* Limits memory to `bytes`. `swap_bytes` is memory and swap together, at least `bytes`; -1: no limit, 0: not set.
 * Replaces both. */
FACET_API enum facet_status facet_workload_set_memory(struct facet_workload *workload, uint64_t bytes,
                                                      int64_t swap_bytes, struct facet_error *error);
/* A shared object to preload, and its path inside the container; NULL: as on the host. LD_PRELOAD is split at colons
 * and spaces, so `target` must have none. */
FACET_API enum facet_status facet_workload_add_hook(struct facet_workload *workload, const char *source,
                                                    const char *target, struct facet_error *error);

/*
 * Merges `from` into `into`, if the result is valid by the schema. The message of a conflict calls the two
 * configurations by `into_name` and `from_name`.
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
    const char *cdi_device;      /* the name of the CDI device; default "default" */
    const char *seccomp_profile; /* JSON: the profile to which `system_calls` are added in the forms for Docker and OCI,
                                    when the configuration has no profile */
};

/*
 * Renders a configuration in a form. A setting that the form cannot express is never dropped silently: if `ret_left` is
 * NULL, FACET_UNSUPPORTED names it; otherwise the other settings are rendered, and *ret_left lists the settings that
 * are left to the caller, if any. `options` may be NULL. Hooks become mounts and LD_PRELOAD, which is joined to an
 * LD_PRELOAD of `environment`.
 */
FACET_API enum facet_status facet_workload_render(const struct facet_workload *workload, uint32_t form,
                                                  const struct facet_render_options *options, char **ret_text,
                                                  struct facet_violations **ret_left, struct facet_error *error);

/* --- lifecycle --- */

enum facet_verdict {
    FACET_VERDICT_GO = 0,
    FACET_VERDICT_DENY = 1,  /* forever; only from pre_create */
    FACET_VERDICT_DEFER = 2, /* try again later */
};

struct facet_lifecycle_answer {
    uint32_t verdict; /* enum facet_verdict */
    uint32_t reserved;
    uint64_t retry_ns; /* of a deferral: the time after which to ask again */
    char reason[128];  /* of a denial or deferral, one line */
    const char *hook;  /* the name of the hook that gave the answer; set by facet_lifecycle_create() and
                          facet_lifecycle_terminate() */
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
    uint32_t aborted; /* for post_terminate: the workload never ran, because its creation failed */
};

/*
 * The hooks of a plugin. Each function may be NULL. The plugin sets `size`, `name` and `context`. A hook that fails,
 * denies or defers must hold nothing.
 */
struct facet_lifecycle_hook {
    uint32_t size;
    uint32_t reserved;
    const char *name;
    void *context;
    /* Adds settings to `config`, which is empty and this hook's own. May deny or defer. */
    enum facet_status (*pre_create)(void *context, const struct facet_lifecycle_workload *workload,
                                    struct facet_workload *config, struct facet_lifecycle_answer *ret_answer,
                                    struct facet_error *error);
    enum facet_status (*post_create)(void *context, const struct facet_lifecycle_workload *workload,
                                     struct facet_error *error);
    /* May defer, but not deny: a workload always ends. */
    enum facet_status (*pre_terminate)(void *context, const struct facet_lifecycle_workload *workload,
                                       struct facet_lifecycle_answer *ret_answer, struct facet_error *error);
    /* Releases everything that pre_create acquired. Also called, with `aborted`, to undo pre_create. */
    enum facet_status (*post_terminate)(void *context, const struct facet_lifecycle_workload *workload,
                                        struct facet_error *error);
};

/*
 * BEP-1016's query_workload_config: asks each hook in order, merges their settings, and checks the result by the
 * schema. FACET_OK with FACET_VERDICT_GO: *ret_workload is the configuration. If a hook denies or defers, *ret_answer
 * names it. After that, and after a failure or conflict (FACET_ALREADY_EXISTS), the hooks that were asked are undone in
 * reverse order, and *ret_workload is untouched.
 */
FACET_API enum facet_status facet_lifecycle_create(const struct facet_lifecycle_hook *const *hooks, uint32_t count,
                                                   const struct facet_lifecycle_workload *workload,
                                                   struct facet_workload **ret_workload,
                                                   struct facet_lifecycle_answer *ret_answer,
                                                   struct facet_error *error);
/* Calls post_create of each hook, after the workload was created. A failure undoes all hooks in reverse order; the
 * caller then ends the workload. */
FACET_API enum facet_status facet_lifecycle_created(const struct facet_lifecycle_hook *const *hooks, uint32_t count,
                                                    const struct facet_lifecycle_workload *workload,
                                                    struct facet_error *error);
/* Asks all hooks in reverse order; of several deferrals the longest counts. FACET_BAD_STATE: a hook denies. */
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
 * A workload's grants, as they are stored in a file and read after a restart (BEP-1016's write_into_kernel,
 * reconstruct_from_kernel). The order of records is kept. Texts may have any bytes except NUL.
 */
struct facet_resources;

enum facet_resources_kind {
    FACET_RESOURCES_OWNER = 0,      /* text[0]: the owner; at most one */
    FACET_RESOURCES_HANDLE = 1,     /* text[0]: the handle of the reservation; at most one */
    FACET_RESOURCES_SCRATCH = 2,    /* number: bytes; at most one */
    FACET_RESOURCES_REQUEST = 3,    /* text[0]: slot; number: requested micro-units */
    FACET_RESOURCES_ALLOCATION = 4, /* text[0]: a slot of the allocation, which may have no grant */
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
    uint32_t places; /* the least number of decimals of `number` in a legacy file */
    uint32_t reserved;
    const char *text[4]; /* borrowed when read; NULL where the kind has none */
    int64_t number;      /* 0 or more */
};

FACET_API enum facet_status facet_resources_create(struct facet_resources **ret_resources, struct facet_error *error);
FACET_API void facet_resources_destroy(struct facet_resources *resources); /* NULL is fine */
/* Appends a copy. FACET_ALREADY_EXISTS: a second owner, handle or scratch; a second request of a slot, or a second
 * grant of it on the same device. */
FACET_API enum facet_status facet_resources_add(struct facet_resources *resources,
                                                const struct facet_resources_record *record, struct facet_error *error);
FACET_API uint32_t facet_resources_count(const struct facet_resources *resources);
FACET_API enum facet_status facet_resources_get(const struct facet_resources *resources, uint32_t index,
                                                struct facet_resources_record *ret_record, struct facet_error *error);

/*
 * Facet's own format: a line with format and version, a line for each record, in which the length in bytes precedes
 * each text ("4:cuda"), and a last line with the number of records and a checksum (XXH3, 128 bits) of all lines before
 * it (docs/spec.md). Reading gives all that was written, or FACET_CORRUPT with the damaged line; FACET_UNSUPPORTED: a
 * later version.
 */
FACET_API enum facet_status facet_resources_format(const struct facet_resources *resources, char **ret_text,
                                                   size_t *ret_bytes, struct facet_error *error);
FACET_API enum facet_status facet_resources_parse(const char *text, size_t bytes,
                                                  struct facet_resources **ret_resources, struct facet_error *error);

/* Writes the file `name` into the folder with the descriptor `folder`: a new file is written and synced before it
 * replaces the old one, so that a complete file exists at any time. `name` has no slash. FACET_IO, FACET_NO_SPACE,
 * FACET_PERMISSION. */
FACET_API enum facet_status facet_resources_save(const struct facet_resources *resources, int folder, const char *name,
                                                 struct facet_error *error);
/* FACET_NOT_FOUND, FACET_CORRUPT. */
FACET_API enum facet_status facet_resources_load(int folder, const char *name, struct facet_resources **ret_resources,
                                                 struct facet_error *error);

/* --- the legacy file, resource.txt --- */

/* Returns the type of a slot, an enum facet_slot_type; any other value means that the type is unknown. */
typedef uint32_t (*facet_slot_type_func)(void *context, const char *slot);

/*
 * KEY=VALUE lines: SCRATCH_SIZE, MOUNTS, SLOTS, UNIFIED_DEVICES, <SLOT>_SHARES; lines with other keys are records of
 * FACET_RESOURCES_DATA. Reading accepts all that Backend.AI's own reader accepts, and also ids with colons, and amounts
 * with a unit if the type of the slot is unknown. Writing refuses (FACET_UNSUPPORTED) text that would be read back
 * differently: capitals in names, separators in ids and paths, ends of lines, white space at either end, bytes that are
 * not UTF-8, options. Amounts in bytes are written exactly. docs/spec.md lists the differences and their reasons. With
 * `type` NULL all types are unknown, and writing takes the slots named "mem" for slots of bytes.
 */
FACET_API enum facet_status facet_resources_parse_legacy(const char *text, size_t bytes, facet_slot_type_func type,
                                                         void *context, struct facet_resources **ret_resources,
                                                         struct facet_error *error);
FACET_API enum facet_status facet_resources_format_legacy(const struct facet_resources *resources,
                                                          facet_slot_type_func type, void *context, char **ret_text,
                                                          struct facet_error *error);

/* Parses a number of bytes: "1.5g", "2KiB", "1_024", "512". FACET_INVALID_ARGUMENT also for a fraction of a byte. The
 * format function writes the shortest exact text: "1.5g", with at most two decimals, else all digits. It returns
 * `buffer`. */
FACET_API enum facet_status facet_spec_parse_binary(const char *text, int64_t *ret_bytes, struct facet_error *error);
FACET_API char *facet_spec_format_binary(int64_t bytes, char buffer[FACET_AMOUNT_SIZE]);

#ifdef __cplusplus
}
#endif
#endif
