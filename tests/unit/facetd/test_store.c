/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the content of the database when its disk fails at any step, and that a damaged file is refused.
 * Never: depends on time; failures come from an SQLite VFS that counts the steps.
 */
#include "store_setup.h"

/* --- the usual case ------------------------------------------------------------------------------------------- */

static void rows_come_back_as_they_were(void **state)
{
    struct vgpu_row row = row_of(BASE_ID, "base"), *rows = NULL;
    struct store *store = open_store();
    size_t count = 0;

    row.limits.memory_bytes = INT64_MAX;
    row.ephemeral = row.frozen = true;
    row.state = ROW_CREATING;
    row.idle_freeze_s = 90;
    row.oversubscribe = true;
    row.owner_uid = 4000000000;
    snprintf(row.labels, sizeof row.labels, "job=17\nexample.org/team=a b\n");
    row.slice = (struct vgpu_slice){.template_id = "1g.10gb",
                                    .partition_uuid = "some-partition",
                                    .start = UINT32_MAX,
                                    .address = "somewhere",
                                    .memory_bytes = 77,
                                    .compute_milli = 142,
                                    .compute_units = 16};
    assert_int_equal(store_begin(store, NULL), FACET_OK);
    assert_int_equal(store_insert(store, &row, NULL), FACET_OK);
    assert_int_equal(store_commit(store, NULL), FACET_OK);
    store_close(store);

    store = open_store();
    assert_int_equal(store_load(store, &rows, &count, NULL), FACET_OK);
    assert_int_equal(count, 1);
    assert_string_equal(rows[0].id, row.id);
    assert_string_equal(rows[0].name, row.name);
    assert_string_equal(rows[0].device_id, row.device_id);
    assert_string_equal(rows[0].device_uuid, row.device_uuid);
    assert_string_equal(rows[0].device_name, row.device_name);
    assert_memory_equal(&rows[0].limits, &row.limits, sizeof row.limits);
    assert_true(rows[0].ephemeral);
    assert_true(rows[0].frozen);
    assert_int_equal(rows[0].created_ns, row.created_ns);
    assert_int_equal(rows[0].state, ROW_CREATING);
    assert_int_equal(rows[0].idle_freeze_s, 90);
    assert_true(rows[0].oversubscribe);
    assert_int_equal(rows[0].owner_uid, row.owner_uid);
    assert_string_equal(rows[0].labels, row.labels);
    assert_memory_equal(&rows[0].slice, &row.slice, sizeof row.slice);
    free(rows);
    store_close(store);
}

static void rows_keep_the_order_of_creation(void **state)
{
    struct store *store = open_store();

    insert_vgpu(store, OTHER_ID, "zebra");
    insert_vgpu(store, BASE_ID, "ant");
    assert_stored(store, "zebra:256 ant:256");
    store_close(store);
}

static void a_rollback_leaves_nothing(void **state)
{
    struct vgpu_row row = row_of(OTHER_ID, "other");
    struct store *store = open_store();

    insert_vgpu(store, BASE_ID, "base");
    assert_int_equal(store_begin(store, NULL), FACET_OK);
    assert_int_equal(store_insert(store, &row, NULL), FACET_OK);
    assert_int_equal(store_delete(store, BASE_ID, NULL), FACET_OK);
    store_rollback(store);
    store_rollback(store);
    assert_stored(store, "base:256");
    store_close(store);
}

static void a_taken_name_and_an_unknown_id_are_refused(void **state)
{
    struct vgpu_row row = row_of(OTHER_ID, "base");
    struct store *store = open_store();
    struct facet_error error = {0};

    insert_vgpu(store, BASE_ID, "base");
    assert_int_equal(store_begin(store, NULL), FACET_OK);
    assert_int_equal(store_insert(store, &row, &error), FACET_ALREADY_EXISTS);
    assert_string_equal(error.argument, "name");
    assert_int_equal(store_update(store, &row, NULL), FACET_NOT_FOUND);
    assert_int_equal(store_delete(store, OTHER_ID, NULL), FACET_NOT_FOUND);
    store_rollback(store);
    assert_stored(store, "base:256");
    store_close(store);
}

/* --- refusals ------------------------------------------------------------------------------------------------- */

static void assert_refused(enum facet_status expected)
{
    struct facet_error error = {0};
    struct store *store = NULL;

    assert_int_equal(store_open(folder, &store, &error), expected);
    assert_null(store);
    assert_non_null(strstr(error.message, folder));
    assert_non_null(strstr(error.message, STORE_FILE));
}

static void write_at(long offset, const void *bytes, size_t size)
{
    char path[128];

    snprintf(path, sizeof path, "%s/" STORE_FILE, folder);
    FILE *file = fopen(path, access(path, F_OK) ? "w" : "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void a_file_that_is_no_database_is_corrupt(void **state)
{
    static const char garbage[2000] = "This is a diary, and not a database at all.";

    write_at(0, garbage, sizeof garbage);
    assert_refused(FACET_CORRUPT);
    assert_refused(FACET_CORRUPT); /* reading the file did not replace it */
}

static void a_damaged_page_is_corrupt(void **state)
{
    unsigned char noise[4096];
    struct store *store = open_store();

    for (unsigned i = 0; i < 50; i++) {
        char id[VGPU_ID_SIZE], name[16];
        snprintf(id, sizeof id, "%016x", i);
        snprintf(name, sizeof name, "v%u", i);
        insert_vgpu(store, id, name);
    }
    store_close(store);
    memset(noise, 0xa5, sizeof noise);
    write_at(4096, noise, sizeof noise); /* the second page */
    assert_refused(FACET_CORRUPT);
}

static void run_sql(const char *sql)
{
    char path[128];
    sqlite3 *db;

    snprintf(path, sizeof path, "%s/" STORE_FILE, folder);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA locking_mode = EXCLUSIVE;", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void a_database_of_another_program_is_left_alone(void **state)
{
    run_sql("CREATE TABLE recipes (name TEXT); INSERT INTO recipes VALUES ('soup');");
    assert_refused(FACET_CORRUPT);
    run_sql("INSERT INTO recipes VALUES ('bread');");
}

static void a_newer_schema_is_refused(void **state)
{
    store_close(open_store());
    run_sql("PRAGMA user_version = 6;"); /* one above SCHEMA_VERSION */
    assert_refused(FACET_ABI_MISMATCH);
}

/* A database of the first release: every later release must serve its rows. */
static void a_database_of_version_1_is_brought_up_to_date(void **state)
{
    struct vgpu_row *rows = NULL;
    struct facet_error error = {0};
    size_t count = 0;

    run_sql("CREATE TABLE vgpu (position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,"
            " device_id TEXT NOT NULL, device_uuid TEXT NOT NULL, device_name TEXT NOT NULL,"
            " memory_limit_bytes INTEGER NOT NULL, compute_request_milli INTEGER NOT NULL,"
            " compute_limit_milli INTEGER NOT NULL, mode INTEGER NOT NULL, priority INTEGER NOT NULL,"
            " ephemeral INTEGER NOT NULL, frozen INTEGER NOT NULL, created_ns INTEGER NOT NULL) STRICT;"
            "INSERT INTO vgpu VALUES (1, '" BASE_ID
            "', 'old', 'opencl:0', 'uuid', 'A device', 4096, 300, 1000, 1, 1, 0,"
            " 1, 17);"
            "PRAGMA application_id = 1178817584; PRAGMA user_version = 1;");
    for (int opened = 0; opened < 2; opened++) {
        struct store *store = open_store();
        if (store_load(store, &rows, &count, &error) != FACET_OK)
            fail_msg("%s", error.message);
        assert_int_equal(count, 1);
        assert_string_equal(rows[0].name, "old");
        assert_int_equal(rows[0].limits.memory_bytes, 4096);
        assert_int_equal(rows[0].created_ns, 17);
        assert_true(rows[0].frozen);
        assert_int_equal(rows[0].state, ROW_READY);
        assert_string_equal(rows[0].slice.template_id, "");
        assert_int_equal(rows[0].idle_freeze_s, 0);
        assert_int_equal(rows[0].owner_uid, geteuid());
        assert_string_equal(rows[0].labels, "");
        free(rows);
        rows = NULL;
        store_close(store);
    }
}

static void an_id_that_would_leave_its_folder_is_corrupt(void **state)
{
    struct vgpu_row *rows = NULL;
    struct facet_error error = {0};
    size_t count = 0;
    struct store *store = open_store();

    insert_vgpu(store, BASE_ID, "base");
    store_close(store);
    run_sql("UPDATE vgpu SET id = '../../../../home';");
    store = open_store();
    assert_int_equal(store_load(store, &rows, &count, &error), FACET_CORRUPT);
    assert_non_null(strstr(error.message, STORE_FILE));
    store_close(store);
}

/* Where a database was edited by hand, no number is truncated or loses its sign. */
static void numbers_out_of_range_are_corrupt(void **state)
{
    static const char *const columns[] = {
        "created_ns", "start", "slice_memory_bytes", "slice_compute_milli", "slice_compute_units", "idle_freeze_s"};
    struct vgpu_row *rows = NULL;
    size_t count = 0;
    char sql[128];

    struct store *made = open_store();
    insert_vgpu(made, BASE_ID, "base");
    store_close(made);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        struct facet_error error = {0};

        snprintf(sql, sizeof sql, "UPDATE vgpu SET %s = -1;", columns[i]);
        run_sql(sql);
        struct store *store = open_store();
        assert_int_equal(store_load(store, &rows, &count, &error), FACET_CORRUPT);
        assert_non_null(strstr(error.message, columns[i]));
        store_close(store);
        snprintf(sql, sizeof sql, "UPDATE vgpu SET %s = 0;", columns[i]);
        run_sql(sql);
    }
    run_sql("UPDATE vgpu SET idle_freeze_s = 4294967296;");
    struct store *store = open_store();
    assert_int_equal(store_load(store, &rows, &count, NULL), FACET_CORRUPT);
    store_close(store);
}

static void a_second_daemon_is_refused(void **state)
{
    struct store *store = open_store();

    assert_refused(FACET_BUSY);
    insert_vgpu(store, BASE_ID, "base");
    store_close(store);
    store = open_store();
    assert_stored(store, "base:256");
    store_close(store);
}

static void a_missing_folder_is_an_error(void **state)
{
    struct facet_error error = {0};
    struct store *store = NULL;

    assert_int_equal(store_open("/nonexistent/facet", &store, &error), FACET_PERMISSION);
    assert_non_null(strstr(error.message, "/nonexistent/facet"));
}

/* --- the disk fails at every step ----------------------------------------------------------------------------- */

typedef enum facet_status (*change_func)(struct store *store, struct facet_error *error);

static enum facet_status change_insert(struct store *store, struct facet_error *error)
{
    struct vgpu_row row = row_of(OTHER_ID, "other");

    return store_insert(store, &row, error);
}

static enum facet_status change_update(struct store *store, struct facet_error *error)
{
    struct vgpu_row row = row_of(BASE_ID, "base");

    row.limits.memory_bytes = 512u << 20;
    row.frozen = true;
    return store_update(store, &row, error);
}

static enum facet_status change_delete(struct store *store, struct facet_error *error)
{
    return store_delete(store, BASE_ID, error);
}

static enum facet_status change_reserve(struct store *store, struct facet_error *error)
{
    return write_reservation(store, OTHER_ID, "new", error);
}

static enum facet_status change_release(struct store *store, struct facet_error *error)
{
    return store_delete_reservation(store, BASE_ID, error);
}

static enum facet_status transact_change(struct store *store, change_func change, struct facet_error *error)
{
    enum facet_status status = store_begin(store, error);

    if (status == FACET_OK)
        status = change(store, error);
    if (status == FACET_OK)
        return store_commit(store, error);
    store_rollback(store);
    return status;
}

struct fault {
    bool keeps_failing;
    int code;
    enum facet_status status; /* the reported status; opening may say FACET_PERMISSION */
};

static const struct fault faults[] = {
    {false, SQLITE_IOERR_WRITE, FACET_IO},
    {true, SQLITE_IOERR_FSYNC, FACET_IO},
    {false, SQLITE_FULL, FACET_NO_SPACE},
    {true, SQLITE_FULL, FACET_NO_SPACE},
};

enum { FAULT_COUNT = sizeof faults / sizeof faults[0], STEPS_MAX = 200 };

/* Makes one change, for which the disk fails at step `step`. Returns false if the change needs fewer steps. */
static bool fail_change(change_func change, const char *before, const char *after, const struct fault *fault,
                        unsigned step)
{
    struct facet_error error = {0};
    char text[256];
    struct store *store;

    remove_database();
    store = open_store();
    insert_vgpu(store, BASE_ID, "base");
    if (strchr(before, '+'))
        insert_reservation(store, BASE_ID, "old");
    disk_arm(step, fault->keeps_failing, fault->code);
    enum facet_status status = transact_change(store, change, &error);
    bool failed = disk_failed();
    disk_arm(0, false, 0);

    if (status != FACET_OK) {
        assert_true(failed);
        assert_int_equal(status, fault->status);
        assert_non_null(strstr(error.message, folder));
        assert_stored(store, before);
        /* The same change succeeds once the disk works. */
        assert_int_equal(transact_change(store, change, NULL), FACET_OK);
    }
    assert_stored(store, after);
    store_close(store);
    store = open_store();
    describe_store(store, text, sizeof text);
    assert_string_equal(text, after);
    store_close(store);
    return failed;
}

/* Like fail_change(), but the daemon dies right after the failure: the state is the old or the new one. */
static bool fail_change_and_die(change_func change, const char *before, const char *after, const struct fault *fault,
                                unsigned step)
{
    char copy[96], command[384], text[256];
    struct store *store;

    remove_database();
    store = open_store();
    insert_vgpu(store, BASE_ID, "base");
    if (strchr(before, '+'))
        insert_reservation(store, BASE_ID, "old");
    disk_arm(step, fault->keeps_failing, fault->code);
    enum facet_status status = transact_change(store, change, NULL);
    bool failed = disk_failed();
    disk_arm(0, false, 0);

    /* A process killed at this moment leaves exactly this content on the disk. */
    snprintf(copy, sizeof copy, "%s/killed", folder);
    snprintf(command, sizeof command, "mkdir %s && cp %s/" STORE_FILE "* %s/", copy, folder, copy);
    assert_int_equal(system(command), 0);
    store_close(store);

    struct store *restarted = NULL;
    assert_int_equal(store_open(copy, &restarted, NULL), FACET_OK);
    describe_store(restarted, text, sizeof text);
    store_close(restarted);
    snprintf(command, sizeof command, "rm -r %s", copy);
    assert_int_equal(system(command), 0);
    if (status == FACET_OK)
        assert_string_equal(text, after);
    else if (strcmp(text, before) != 0)
        assert_string_equal(text, after);
    return failed;
}

typedef bool (*attempt_func)(change_func change, const char *before, const char *after, const struct fault *fault,
                             unsigned step);

static void fail_every_step(attempt_func attempt, change_func change, const char *before, const char *after)
{
    for (size_t i = 0; i < FAULT_COUNT; i++) {
        unsigned step = 1;
        while (attempt(change, before, after, &faults[i], step))
            assert_true(++step < STEPS_MAX);
        assert_true(step > 2); /* the change took steps, so that some of them failed */
    }
}

static void an_insert_is_all_or_nothing_on_a_failing_disk(void **state)
{
    fail_every_step(fail_change, change_insert, "base:256", "base:256 other:256");
    fail_every_step(fail_change_and_die, change_insert, "base:256", "base:256 other:256");
}

static void an_update_is_all_or_nothing_on_a_failing_disk(void **state)
{
    fail_every_step(fail_change, change_update, "base:256", "base:512f");
    fail_every_step(fail_change_and_die, change_update, "base:256", "base:512f");
}

static void a_delete_is_all_or_nothing_on_a_failing_disk(void **state)
{
    fail_every_step(fail_change, change_delete, "base:256", "");
    fail_every_step(fail_change_and_die, change_delete, "base:256", "");
}

static void a_reservation_is_all_or_nothing_on_a_failing_disk(void **state)
{
    fail_every_step(fail_change, change_reserve, "base:256", "base:256+new:9000");
    fail_every_step(fail_change_and_die, change_reserve, "base:256", "base:256+new:9000");
}

static void a_release_is_all_or_nothing_on_a_failing_disk(void **state)
{
    fail_every_step(fail_change, change_release, "base:256+old:9000", "base:256");
    fail_every_step(fail_change_and_die, change_release, "base:256+old:9000", "base:256");
}

static void reservations_come_back_as_they_were(void **state)
{
    struct reservation_row *rows = NULL;
    struct facet_error error = {0};
    struct store *store = open_store();
    size_t count = 0;

    insert_reservation(store, OTHER_ID, "zebra");
    insert_reservation(store, BASE_ID, "ant");
    assert_int_equal(store_begin(store, NULL), FACET_OK);
    assert_int_equal(write_reservation(store, "00000000000000cc", "ant", &error), FACET_ALREADY_EXISTS);
    assert_string_equal(error.argument, "name");
    assert_int_equal(store_delete_reservation(store, "00000000000000cc", NULL), FACET_NOT_FOUND);
    store_rollback(store);
    store_close(store);
    store = open_store();
    assert_int_equal(store_load_reservations(store, &rows, &count, NULL), FACET_OK);
    assert_int_equal(count, 2);
    assert_string_equal(rows[0].name, "zebra");
    assert_string_equal(rows[1].id, BASE_ID);
    assert_int_equal(rows[1].strategy, 1);
    assert_int_equal(rows[1].affinity, 2);
    assert_int_equal(rows[1].created_ns, 17);
    assert_int_equal(rows[1].text_size, 9000);
    assert_int_equal(rows[1].text[8999], 'x');
    reservation_rows_free(rows, count);
    store_close(store);
}

/* Opens the database while the disk fails at `step`, and then again with a disk that works. */
static bool fail_open(const struct fault *fault, unsigned step, const char *expected)
{
    struct facet_error error = {0};
    struct store *store = NULL;

    disk_arm(step, fault->keeps_failing, fault->code);
    enum facet_status status = store_open(folder, &store, &error);
    bool failed = disk_failed();
    if (status != FACET_OK) {
        assert_true(failed);
        assert_non_null(strstr(error.message, folder));
        assert_int_not_equal(status, FACET_CORRUPT);
    }
    disk_arm(0, false, 0);
    if (status == FACET_OK)
        store_close(store);
    store = open_store();
    assert_stored(store, expected);
    store_close(store);
    return failed;
}

static void creating_the_database_survives_a_failing_disk(void **state)
{
    for (size_t i = 0; i < FAULT_COUNT; i++) {
        unsigned step = 1;
        do {
            remove_database();
            assert_true(step < STEPS_MAX);
        } while (fail_open(&faults[i], step++, ""));
        assert_true(step > 5);
    }
}

static void opening_the_database_survives_a_failing_disk(void **state)
{
    struct store *store = open_store();

    insert_vgpu(store, BASE_ID, "base");
    store_close(store);
    for (size_t i = 0; i < FAULT_COUNT; i++) {
        unsigned step = 1;
        while (fail_open(&faults[i], step, "base:256"))
            assert_true(++step < STEPS_MAX);
        assert_true(step > 1);
    }
}

int main(void)
{
#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        STORE_TEST(rows_come_back_as_they_were),
        STORE_TEST(rows_keep_the_order_of_creation),
        STORE_TEST(a_rollback_leaves_nothing),
        STORE_TEST(a_taken_name_and_an_unknown_id_are_refused),
        STORE_TEST(a_file_that_is_no_database_is_corrupt),
        STORE_TEST(a_damaged_page_is_corrupt),
        STORE_TEST(a_database_of_another_program_is_left_alone),
        STORE_TEST(a_newer_schema_is_refused),
        STORE_TEST(a_database_of_version_1_is_brought_up_to_date),
        STORE_TEST(an_id_that_would_leave_its_folder_is_corrupt),
        STORE_TEST(numbers_out_of_range_are_corrupt),
        STORE_TEST(a_second_daemon_is_refused),
        STORE_TEST(a_missing_folder_is_an_error),
        STORE_TEST(an_insert_is_all_or_nothing_on_a_failing_disk),
        STORE_TEST(an_update_is_all_or_nothing_on_a_failing_disk),
        STORE_TEST(a_delete_is_all_or_nothing_on_a_failing_disk),
        STORE_TEST(reservations_come_back_as_they_were),
        STORE_TEST(a_reservation_is_all_or_nothing_on_a_failing_disk),
        STORE_TEST(a_release_is_all_or_nothing_on_a_failing_disk),
        STORE_TEST(creating_the_database_survives_a_failing_disk),
        STORE_TEST(opening_the_database_survives_a_failing_disk),
    };

    if (disk_install() != SQLITE_OK)
        return 1;
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
