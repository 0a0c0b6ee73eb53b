/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A database in a folder of its own, rows for it, and its content as one line of text.
 *
 * Owns: making and removing the folder for each test of test_store.c.
 * Never: makes a step of the disk fail (failing_disk.h).
 */
#ifndef FACETD_TEST_STORE_SETUP_H
#define FACETD_TEST_STORE_SETUP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "failing_disk.h"
#include "store.h"
#include <cmocka.h>

/* --- a folder per test ---------------------------------------------------------------------------------------- */

static char folder[64];

static void remove_database(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char path[128];

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        snprintf(path, sizeof path, "%s/" STORE_FILE "%s", folder, suffixes[i]);
        unlink(path);
    }
}

static int make_folder(void **state)
{
    disk_arm(0, false, 0);
    /* The disk's faults are simulated, so that thousands of syncs need not reach a real disk. */
    snprintf(folder, sizeof folder, "%s/facet-store-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    remove_database();
    return rmdir(folder);
}

static struct vgpu_row row_of(const char *id, const char *name)
{
    struct vgpu_row row = {
        .limits = {256u << 20, 300, 1000, FACET_MODE_SOFT, FACET_PRIORITY_NORMAL},
        .ephemeral = false,
        .created_ns = 1700000000123456789,
    };

    snprintf(row.id, sizeof row.id, "%s", id);
    snprintf(row.name, sizeof row.name, "%s", name);
    snprintf(row.device_id, sizeof row.device_id, "opencl:0");
    snprintf(row.device_uuid, sizeof row.device_uuid, "some-uuid");
    snprintf(row.device_name, sizeof row.device_name, "A device");
    return row;
}

#define BASE_ID  "00000000000000aa"
#define OTHER_ID "00000000000000bb"

static struct store *open_store(void)
{
    struct store *store = NULL;
    struct facet_error error = {0};

    if (store_open(folder, &store, &error) != FACET_OK)
        fail_msg("%s", error.message);
    return store;
}

static void insert_vgpu(struct store *store, const char *id, const char *name)
{
    struct vgpu_row row = row_of(id, name);

    assert_int_equal(store_begin(store, NULL), FACET_OK);
    assert_int_equal(store_insert(store, &row, NULL), FACET_OK);
    assert_int_equal(store_commit(store, NULL), FACET_OK);
}

/* Writes a reservation whose text takes several pages of the database. */
static enum facet_status write_reservation(struct store *store, const char *id, const char *name,
                                           struct facet_error *error)
{
    static char text[9000];
    struct reservation_row row = {.strategy = 1, .affinity = 2, .created_ns = 17, .text = text, .text_size = 9000};

    memset(text, 'x', sizeof text);
    snprintf(row.id, sizeof row.id, "%s", id);
    snprintf(row.name, sizeof row.name, "%s", name);
    return store_insert_reservation(store, &row, error);
}

static void insert_reservation(struct store *store, const char *id, const char *name)
{
    assert_int_equal(store_begin(store, NULL), FACET_OK);
    assert_int_equal(write_reservation(store, id, name, NULL), FACET_OK);
    assert_int_equal(store_commit(store, NULL), FACET_OK);
}

static size_t describe_reservations(struct store *store, char *text, size_t size)
{
    struct reservation_row *rows = NULL;
    struct facet_error error = {0};
    size_t count = 0, used = 0;

    if (store_load_reservations(store, &rows, &count, &error) != FACET_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, size - used, "+%s:%zu", rows[i].name, rows[i].text_size);
    reservation_rows_free(rows, count);
    return used;
}

/*
 * Describes the rows in one line: "base:256 other:256f+job:9000", each vGPU with its quota in MiB and "f" when it is
 * frozen, and each reservation with the bytes of its text.
 */
static void describe_store(struct store *store, char *text, size_t size)
{
    struct vgpu_row *rows = NULL;
    struct facet_error error = {0};
    size_t count = 0, used = 0;

    if (store_load(store, &rows, &count, &error) != FACET_OK)
        fail_msg("%s", error.message);
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s:%u%s", i ? " " : "", rows[i].name,
                                 (unsigned)(rows[i].limits.memory_bytes >> 20), rows[i].frozen ? "f" : "");
    free(rows);
    describe_reservations(store, text + used, size - used);
}

static void assert_stored(struct store *store, const char *expected)
{
    char text[256];

    describe_store(store, text, sizeof text);
    assert_string_equal(text, expected);
}

#endif
