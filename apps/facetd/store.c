/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the SQL. Never: lets a failure of SQLite pass without naming the file. */
#include "store.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store_schema.h"

struct store {
    sqlite3 *db;
    char path[1024];
};

static enum facet_status status_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
        return FACET_NO_SPACE;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_MISMATCH:
        return FACET_CORRUPT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return FACET_BUSY;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return FACET_PERMISSION;
    case SQLITE_NOMEM:
        return FACET_NO_MEMORY;
    default:
        return FACET_IO;
    }
}

static const char *advice_for(enum facet_status status)
{
    switch (status) {
    case FACET_NO_SPACE:
        return "free space there";
    case FACET_CORRUPT:
        return "restore it from a backup, or move it aside to start without the vGPUs and reservations it names";
    case FACET_BUSY:
        return "another facetd has it: stop that one, or give each its own FACET_STATE_DIR";
    case FACET_PERMISSION:
        return "make the folder writable, or choose another with FACET_STATE_DIR";
    default:
        return "look at the disk it is on";
    }
}

static const char *reason_of(const struct store *store, int code)
{
    bool is_last = store->db && (sqlite3_errcode(store->db) & 0xff) == (code & 0xff);

    return is_last ? sqlite3_errmsg(store->db) : sqlite3_errstr(code);
}

static enum facet_status fail_with_sqlite(const struct store *store, int code, const char *doing,
                                          struct facet_error *error)
{
    enum facet_status status = status_of(code);

    return facet_error_set(error, status, "%s: database '%s': %s; %s", doing, store->path, reason_of(store, code),
                           advice_for(status));
}

static enum facet_status run_statement(struct store *store, const char *sql, const char *doing,
                                       struct facet_error *error)
{
    int code = sqlite3_exec(store->db, sql, NULL, NULL, NULL);

    return code == SQLITE_OK ? FACET_OK : fail_with_sqlite(store, code, doing, error);
}

static void cleanup_statement(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}
#define CLEANUP_STATEMENT __attribute__((cleanup(cleanup_statement)))

static enum facet_status prepare_statement(struct store *store, const char *sql, const char *doing,
                                           sqlite3_stmt **ret_statement, struct facet_error *error)
{
    int code = sqlite3_prepare_v2(store->db, sql, -1, ret_statement, NULL);

    return code == SQLITE_OK ? FACET_OK : fail_with_sqlite(store, code, doing, error);
}

/* Runs a query, and copies the first column of its first row. */
static enum facet_status ask_for_text(struct store *store, const char *sql, char *ret_text, size_t size,
                                      struct facet_error *error)
{
    CLEANUP_STATEMENT sqlite3_stmt *statement = NULL;

    enum facet_status status = prepare_statement(store, sql, "opening", &statement, error);
    if (status != FACET_OK)
        return status;
    int code = sqlite3_step(statement);
    if (code != SQLITE_ROW)
        return fail_with_sqlite(store, code == SQLITE_DONE ? SQLITE_CORRUPT : code, "opening", error);
    const unsigned char *text = sqlite3_column_text(statement, 0);
    snprintf(ret_text, size, "%s", text ? (const char *)text : "");
    return FACET_OK;
}

static enum facet_status ask_integer(struct store *store, const char *sql, long long *ret_integer,
                                     struct facet_error *error)
{
    char text[32];

    enum facet_status status = ask_for_text(store, sql, text, sizeof text, error);
    if (status == FACET_OK)
        *ret_integer = strtoll(text, NULL, 10);
    return status;
}

/* Makes the daemon's only connection exclusive, so that no second daemon ever writes to the same state. */
static enum facet_status configure_store(struct store *store, struct facet_error *error)
{
    char mode[16];

    enum facet_status status = run_statement(store, "PRAGMA locking_mode = EXCLUSIVE;", "opening", error);
    if (status == FACET_OK)
        status = ask_for_text(store, "PRAGMA journal_mode = WAL;", mode, sizeof mode, error);
    if (status == FACET_OK && strcmp(mode, "wal") != 0)
        return facet_error_set(error, FACET_UNSUPPORTED,
                               "opening: database '%s': its file system allows no write-ahead log (got '%s'); choose "
                               "another folder with FACET_STATE_DIR",
                               store->path, mode);
    /* This write takes the lock now instead of at the first change. */
    if (status == FACET_OK)
        status = run_statement(store, "PRAGMA synchronous = FULL; BEGIN IMMEDIATE; COMMIT;", "opening", error);
    return status;
}

static enum facet_status check_integrity(struct store *store, struct facet_error *error)
{
    char finding[200];

    enum facet_status status = ask_for_text(store, "PRAGMA quick_check(1);", finding, sizeof finding, error);
    if (status == FACET_OK && strcmp(finding, "ok") != 0)
        return facet_error_set(error, FACET_CORRUPT, "opening: database '%s': %s; %s", store->path, finding,
                               advice_for(FACET_CORRUPT));
    return status;
}

/* Each step is a transaction, so that the next daemon goes on after an interrupted upgrade. */
static enum facet_status bring_up_to_date(struct store *store, long long version, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    while (status == FACET_OK && version < SCHEMA_VERSION)
        status = run_statement(store, steps[version++], "bringing up to date", error);
    if (status != FACET_OK)
        store_rollback(store);
    return status;
}

static enum facet_status check_schema(struct store *store, struct facet_error *error)
{
    long long application = 0, version = 0, tables = 0;

    enum facet_status status = ask_integer(store, "PRAGMA application_id;", &application, error);
    if (status == FACET_OK)
        status = ask_integer(store, "PRAGMA user_version;", &version, error);
    if (status == FACET_OK)
        status = ask_integer(store, "SELECT count(*) FROM sqlite_schema;", &tables, error);
    if (status != FACET_OK)
        return status;
    bool is_new = application == 0 && version == 0 && tables == 0;
    if (!is_new && application != APPLICATION_ID)
        return facet_error_set(error, FACET_CORRUPT, "opening: database '%s' is not Facet's; move it aside",
                               store->path);
    if (version > SCHEMA_VERSION || version < !is_new)
        return facet_error_set(error, FACET_ABI_MISMATCH,
                               "opening: database '%s' has schema version %lld; this facetd knows %d; start the facetd "
                               "that wrote it",
                               store->path, version, SCHEMA_VERSION);
    return bring_up_to_date(store, version, error);
}

static enum facet_status open_database(struct store *store, struct facet_error *error)
{
    int code = sqlite3_open_v2(store->path, &store->db,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);

    if (code != SQLITE_OK)
        return fail_with_sqlite(store, code, "opening", error);
    sqlite3_extended_result_codes(store->db, 1);
    /* A database without write permission is still opened, for reading. */
    if (sqlite3_db_readonly(store->db, "main"))
        return fail_with_sqlite(store, SQLITE_READONLY, "opening", error);
    enum facet_status status = configure_store(store, error);
    if (status == FACET_OK)
        status = check_integrity(store, error);
    if (status == FACET_OK)
        status = check_schema(store, error);
    return status;
}

enum facet_status store_open(const char *dir, struct store **ret_store, struct facet_error *error)
{
    struct store *store = calloc(1, sizeof *store);

    if (!store)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the database");
    int length = snprintf(store->path, sizeof store->path, "%s/%s", dir, STORE_FILE);
    enum facet_status status =
        (size_t)length < sizeof store->path
            ? open_database(store, error)
            : facet_error_set(error, FACET_OUT_OF_RANGE, "state folder '%.64s...': too long", dir);
    if (status != FACET_OK) {
        store_close(store);
        return status;
    }
    *ret_store = store;
    return FACET_OK;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    sqlite3_close(store->db);
    free(store);
}

enum facet_status store_begin(struct store *store, struct facet_error *error)
{
    return run_statement(store, "BEGIN IMMEDIATE;", "beginning a change", error);
}

enum facet_status store_commit(struct store *store, struct facet_error *error)
{
    enum facet_status status = run_statement(store, "COMMIT;", "writing", error);

    if (status != FACET_OK)
        store_rollback(store);
    return status;
}

void store_rollback(struct store *store)
{
    /* After some failures, SQLite has rolled back by itself. */
    if (!sqlite3_get_autocommit(store->db))
        sqlite3_exec(store->db, "ROLLBACK;", NULL, NULL, NULL);
}

static void bind_text(sqlite3_stmt *statement, const char *parameter, const char *text)
{
    sqlite3_bind_text(statement, sqlite3_bind_parameter_index(statement, parameter), text, -1, SQLITE_STATIC);
}

static void bind_integer(sqlite3_stmt *statement, const char *parameter, uint64_t value)
{
    sqlite3_bind_int64(statement, sqlite3_bind_parameter_index(statement, parameter), (sqlite3_int64)value);
}

/* Binds the parameters that the statement has; SQLite ignores the others. */
static void bind_row(sqlite3_stmt *statement, const struct vgpu_row *row)
{
    bind_text(statement, ":id", row->id);
    bind_text(statement, ":name", row->name);
    bind_text(statement, ":device_id", row->device_id);
    bind_text(statement, ":device_uuid", row->device_uuid);
    bind_text(statement, ":device_name", row->device_name);
    bind_integer(statement, ":memory", row->limits.memory_bytes);
    bind_integer(statement, ":request", row->limits.compute_request_milli);
    bind_integer(statement, ":limit", row->limits.compute_limit_milli);
    bind_integer(statement, ":mode", row->limits.mode);
    bind_integer(statement, ":priority", row->limits.priority);
    bind_integer(statement, ":ephemeral", row->ephemeral);
    bind_integer(statement, ":frozen", row->frozen);
    bind_integer(statement, ":created", row->created_ns);
    bind_integer(statement, ":state", row->state);
    bind_text(statement, ":template", row->slice.template_id);
    bind_integer(statement, ":start", row->slice.start);
    bind_text(statement, ":partition", row->slice.partition_uuid);
    bind_text(statement, ":address", row->slice.address);
    bind_integer(statement, ":slice_memory", row->slice.memory_bytes);
    bind_integer(statement, ":slice_milli", row->slice.compute_milli);
    bind_integer(statement, ":slice_units", row->slice.compute_units);
    bind_integer(statement, ":idle_freeze", row->idle_freeze_s);
    bind_text(statement, ":reservation", row->reservation);
    bind_integer(statement, ":oversubscribe", row->oversubscribe);
    bind_integer(statement, ":owner", row->owner_uid);
    bind_text(statement, ":labels", row->labels);
}

enum facet_status store_insert(struct store *store, const struct vgpu_row *row, struct facet_error *error)
{
    CLEANUP_STATEMENT sqlite3_stmt *statement = NULL;

    enum facet_status status = prepare_statement(
        store,
        "INSERT INTO vgpu (id, name, device_id, device_uuid, device_name, memory_limit_bytes,"
        " compute_request_milli, compute_limit_milli, mode, priority, ephemeral, frozen, created_ns, state,"
        " template, start, partition_uuid, address, slice_memory_bytes, slice_compute_milli,"
        " slice_compute_units, idle_freeze_s, reservation, oversubscribe, owner, labels)"
        " VALUES (:id, :name, :device_id, :device_uuid, :device_name, :memory, :request, :limit, :mode,"
        " :priority, :ephemeral, :frozen, :created, :state, :template, :start, :partition, :address,"
        " :slice_memory, :slice_milli, :slice_units, :idle_freeze, :reservation,"
        " :oversubscribe, :owner, :labels);",
        "creating a vGPU", &statement, error);
    if (status != FACET_OK)
        return status;
    bind_row(statement, row);
    int code = sqlite3_step(statement);
    if (code == SQLITE_CONSTRAINT_UNIQUE)
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "name", "a vGPU named '%s' exists", row->name);
    return code == SQLITE_DONE ? FACET_OK : fail_with_sqlite(store, code, "creating a vGPU", error);
}

static enum facet_status step_change(struct store *store, sqlite3_stmt *statement, const char *id, const char *doing,
                                     struct facet_error *error)
{
    int code = sqlite3_step(statement);

    if (code != SQLITE_DONE)
        return fail_with_sqlite(store, code, doing, error);
    if (sqlite3_changes(store->db) != 1)
        return facet_error_set(error, FACET_NOT_FOUND, "%s: database '%s' has no '%s'", doing, store->path, id);
    return FACET_OK;
}

enum facet_status store_update(struct store *store, const struct vgpu_row *row, struct facet_error *error)
{
    static const char doing[] = "changing a vGPU";
    CLEANUP_STATEMENT sqlite3_stmt *statement = NULL;

    enum facet_status status = prepare_statement(
        store,
        "UPDATE vgpu SET device_id = :device_id, memory_limit_bytes = :memory,"
        " compute_request_milli = :request, compute_limit_milli = :limit, priority = :priority,"
        " frozen = :frozen, state = :state, start = :start, partition_uuid = :partition, address = :address,"
        " slice_memory_bytes = :slice_memory, slice_compute_milli = :slice_milli,"
        " slice_compute_units = :slice_units, idle_freeze_s = :idle_freeze, labels = :labels WHERE id = :id;",
        doing, &statement, error);
    if (status != FACET_OK)
        return status;
    bind_row(statement, row);
    return step_change(store, statement, row->id, doing, error);
}

enum facet_status store_delete(struct store *store, const char *id, struct facet_error *error)
{
    static const char doing[] = "removing a vGPU";
    CLEANUP_STATEMENT sqlite3_stmt *statement = NULL;

    enum facet_status status = prepare_statement(store, "DELETE FROM vgpu WHERE id = :id;", doing, &statement, error);
    if (status != FACET_OK)
        return status;
    bind_text(statement, ":id", id);
    return step_change(store, statement, id, doing, error);
}

static void copy_text(sqlite3_stmt *statement, int column, char *buffer, size_t size)
{
    const unsigned char *text = sqlite3_column_text(statement, column);

    snprintf(buffer, size, "%s", text ? (const char *)text : "");
}

static void copy_row(sqlite3_stmt *statement, struct vgpu_row *row)
{
    copy_text(statement, 0, row->id, sizeof row->id);
    copy_text(statement, 1, row->name, sizeof row->name);
    copy_text(statement, 2, row->device_id, sizeof row->device_id);
    copy_text(statement, 3, row->device_uuid, sizeof row->device_uuid);
    copy_text(statement, 4, row->device_name, sizeof row->device_name);
    row->limits.memory_bytes = (uint64_t)sqlite3_column_int64(statement, 5);
    row->limits.compute_request_milli = (uint32_t)sqlite3_column_int(statement, 6);
    row->limits.compute_limit_milli = (uint32_t)sqlite3_column_int(statement, 7);
    row->limits.mode = (uint32_t)sqlite3_column_int(statement, 8);
    row->limits.priority = (uint32_t)sqlite3_column_int(statement, 9);
    row->ephemeral = sqlite3_column_int(statement, 10) != 0;
    row->frozen = sqlite3_column_int(statement, 11) != 0;
    row->created_ns = (uint64_t)sqlite3_column_int64(statement, 12);
    row->state = (enum row_state)sqlite3_column_int(statement, 13);
    copy_text(statement, 14, row->slice.template_id, sizeof row->slice.template_id);
    row->slice.start = (uint32_t)sqlite3_column_int64(statement, 15);
    copy_text(statement, 16, row->slice.partition_uuid, sizeof row->slice.partition_uuid);
    copy_text(statement, 17, row->slice.address, sizeof row->slice.address);
    row->slice.memory_bytes = (uint64_t)sqlite3_column_int64(statement, 18);
    row->slice.compute_milli = (uint32_t)sqlite3_column_int(statement, 19);
    row->slice.compute_units = (uint32_t)sqlite3_column_int(statement, 20);
    row->idle_freeze_s = (uint32_t)sqlite3_column_int64(statement, 21);
    copy_text(statement, 22, row->reservation, sizeof row->reservation);
    row->oversubscribe = sqlite3_column_int(statement, 23) != 0;
    int64_t owner = sqlite3_column_int64(statement, 24);
    row->owner_uid = owner < 0 ? (uint32_t)geteuid() : (uint32_t)owner;
    copy_text(statement, 25, row->labels, sizeof row->labels);
}

/* Checks an id, which names a folder, and a name, which appears in metrics: the database may have been edited. */
static enum facet_status check_identity(const struct store *store, const char *kind, const char *id, const char *name,
                                        struct facet_error *error)
{
    struct facet_error reason;

    if (strlen(id) != VGPU_ID_SIZE - 1 || strspn(id, "0123456789abcdef") != VGPU_ID_SIZE - 1)
        return facet_error_set(error, FACET_CORRUPT, "opening: database '%s': %s id '%s' is malformed; %s", store->path,
                               kind, id, advice_for(FACET_CORRUPT));
    if (facet_check_name(name, "name", &reason) != FACET_OK)
        return facet_error_set(error, FACET_CORRUPT, "opening: database '%s': %s '%s': %s", store->path, kind, id,
                               reason.message);
    return FACET_OK;
}

/* Refuses a number below 0, or above the range of its member. */
static enum facet_status check_numbers(const struct store *store, sqlite3_stmt *statement, struct facet_error *error)
{
    static const struct {
        int column; /* in the query of store_load() */
        int64_t most;
    } numbers[] = {{5, INT64_MAX},  {12, INT64_MAX}, {15, UINT32_MAX}, {18, INT64_MAX},
                   {19, INT32_MAX}, {20, INT32_MAX}, {21, UINT32_MAX}};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        int64_t number = sqlite3_column_int64(statement, numbers[i].column);

        if (number < 0 || number > numbers[i].most)
            return facet_error_set(error, FACET_CORRUPT, "opening: database '%s': a vGPU whose %s is %lld; %s",
                                   store->path, sqlite3_column_name(statement, numbers[i].column), (long long)number,
                                   advice_for(FACET_CORRUPT));
    }
    return FACET_OK;
}

static enum facet_status check_labels(const struct store *store, const struct vgpu_row *row, int bytes,
                                      struct facet_error *error)
{
    struct facet_error reason = {0};
    struct facet_label_line label;
    bool good = bytes < (int)sizeof row->labels && bytes == (int)strlen(row->labels);
    size_t at = 0;

    while (good && facet_label_next(row->labels, &at, &label)) {
        char key[FACET_LABEL_KEY_MOST + 1], value[FACET_LABEL_VALUE_MOST + 1];

        good = label.key_length < sizeof key && label.value_length < sizeof value;
        if (!good)
            break;
        snprintf(key, sizeof key, "%.*s", (int)label.key_length, label.key);
        snprintf(value, sizeof value, "%.*s", (int)label.value_length, label.value);
        good = facet_label_check(key, value, &reason) == FACET_OK;
    }
    if (good && at == (size_t)bytes)
        return FACET_OK;
    return facet_error_set(error, FACET_CORRUPT, "opening: database '%s': labels of vGPU '%s' are malformed; %s",
                           store->path, row->id, advice_for(FACET_CORRUPT));
}

static enum facet_status append_row(const struct store *store, sqlite3_stmt *statement, struct vgpu_row **rows,
                                    size_t *count, struct facet_error *error)
{
    struct vgpu_row *grown = reallocarray(*rows, *count + 1, sizeof *grown);

    if (!grown)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %zu vGPUs", *count + 1);
    *rows = grown;
    grown[*count] = (struct vgpu_row){0};
    copy_row(statement, &grown[*count]);
    const struct vgpu_row *row = &grown[(*count)++];
    enum facet_status status = check_numbers(store, statement, error);
    if (status == FACET_OK)
        status = check_identity(store, "vGPU", row->id, row->name, error);
    return status == FACET_OK ? check_labels(store, row, sqlite3_column_bytes(statement, 25), error) : status;
}

enum facet_status store_load(struct store *store, struct vgpu_row **ret_rows, size_t *ret_count,
                             struct facet_error *error)
{
    CLEANUP_STATEMENT sqlite3_stmt *statement = NULL;
    struct vgpu_row *rows = NULL;
    size_t count = 0;
    int code = SQLITE_DONE;

    enum facet_status status = prepare_statement(
        store,
        "SELECT id, name, device_id, device_uuid, device_name, memory_limit_bytes, compute_request_milli,"
        " compute_limit_milli, mode, priority, ephemeral, frozen, created_ns, state, template, start,"
        " partition_uuid, address, slice_memory_bytes, slice_compute_milli, slice_compute_units,"
        " idle_freeze_s, reservation, oversubscribe, owner, labels FROM vgpu ORDER BY position;",
        "reading", &statement, error);
    while (status == FACET_OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        status = append_row(store, statement, &rows, &count, error);
    if (status == FACET_OK && code != SQLITE_DONE)
        status = fail_with_sqlite(store, code, "reading", error);
    if (status != FACET_OK) {
        free(rows);
        return status;
    }
    *ret_rows = rows;
    *ret_count = count;
    return FACET_OK;
}

/* --- reservations ----------------------------------------------------------------------------------------------- */

enum facet_status store_insert_reservation(struct store *store, const struct reservation_row *row,
                                           struct facet_error *error)
{
    static const char doing[] = "writing a reservation";
    CLEANUP_STATEMENT sqlite3_stmt *statement = NULL;

    enum facet_status status =
        prepare_statement(store,
                          "INSERT INTO reservation (id, name, strategy, affinity, created_ns, resources)"
                          " VALUES (:id, :name, :strategy, :affinity, :created, :resources);",
                          doing, &statement, error);
    if (status != FACET_OK)
        return status;
    bind_text(statement, ":id", row->id);
    bind_text(statement, ":name", row->name);
    bind_integer(statement, ":strategy", row->strategy);
    bind_integer(statement, ":affinity", row->affinity);
    bind_integer(statement, ":created", row->created_ns);
    sqlite3_bind_blob64(statement, sqlite3_bind_parameter_index(statement, ":resources"), row->text, row->text_size,
                        SQLITE_STATIC);
    int code = sqlite3_step(statement);
    if (code == SQLITE_CONSTRAINT_UNIQUE)
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "name", "a reservation named '%s' exists", row->name);
    return code == SQLITE_DONE ? FACET_OK : fail_with_sqlite(store, code, doing, error);
}

enum facet_status store_delete_reservation(struct store *store, const char *id, struct facet_error *error)
{
    static const char doing[] = "removing a reservation";
    CLEANUP_STATEMENT sqlite3_stmt *statement = NULL;

    enum facet_status status =
        prepare_statement(store, "DELETE FROM reservation WHERE id = :id;", doing, &statement, error);
    if (status != FACET_OK)
        return status;
    bind_text(statement, ":id", id);
    return step_change(store, statement, id, doing, error);
}

void reservation_rows_free(struct reservation_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(rows[i].text);
    free(rows);
}

static enum facet_status append_reservation(const struct store *store, sqlite3_stmt *statement,
                                            struct reservation_row **rows, size_t *count, struct facet_error *error)
{
    struct reservation_row *grown = reallocarray(*rows, *count + 1, sizeof *grown);
    const void *text = sqlite3_column_blob(statement, 5);
    size_t size = (size_t)sqlite3_column_bytes(statement, 5);
    char *copy = calloc(1, size + 1);

    if (grown)
        *rows = grown;
    if (!grown || !copy) {
        free(copy);
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %zu reservations", *count + 1);
    }
    if (size)
        memcpy(copy, text, size);
    struct reservation_row *row = &grown[(*count)++];
    *row = (struct reservation_row){.strategy = (uint32_t)sqlite3_column_int(statement, 2),
                                    .affinity = (uint32_t)sqlite3_column_int(statement, 3),
                                    .created_ns = (uint64_t)sqlite3_column_int64(statement, 4),
                                    .text = copy,
                                    .text_size = size};
    copy_text(statement, 0, row->id, sizeof row->id);
    copy_text(statement, 1, row->name, sizeof row->name);
    return check_identity(store, "reservation", row->id, row->name, error);
}

enum facet_status store_load_reservations(struct store *store, struct reservation_row **ret_rows, size_t *ret_count,
                                          struct facet_error *error)
{
    CLEANUP_STATEMENT sqlite3_stmt *statement = NULL;
    struct reservation_row *rows = NULL;
    size_t count = 0;
    int code = SQLITE_DONE;

    enum facet_status status = prepare_statement(
        store, "SELECT id, name, strategy, affinity, created_ns, resources FROM reservation ORDER BY position;",
        "reading", &statement, error);
    while (status == FACET_OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        status = append_reservation(store, statement, &rows, &count, error);
    if (status == FACET_OK && code != SQLITE_DONE)
        status = fail_with_sqlite(store, code, "reading", error);
    if (status != FACET_OK) {
        reservation_rows_free(rows, count);
        return status;
    }
    *ret_rows = rows;
    *ret_count = count;
    return FACET_OK;
}
