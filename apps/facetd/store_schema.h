/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the database's tables, version by version. Never: changes a step that was once released. */
#ifndef FACETD_STORE_SCHEMA_H
#define FACETD_STORE_SCHEMA_H

#define SCHEMA_VERSION 5
#define APPLICATION_ID 1178817584 /* "FCT0": distinguishes this database from any other */

#define TEXT_OF(number)  TEXT_OF_(number)
#define TEXT_OF_(number) #number

/* The step from nothing to version 1, from 1 to 2, and so on. An old database takes the steps that it lacks. */
static const char *const steps[SCHEMA_VERSION] = {
    "BEGIN IMMEDIATE;"
    "CREATE TABLE vgpu ("
    "  position INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL UNIQUE,"
    "  name TEXT NOT NULL UNIQUE,"
    "  device_id TEXT NOT NULL,"
    "  device_uuid TEXT NOT NULL,"
    "  device_name TEXT NOT NULL,"
    "  memory_limit_bytes INTEGER NOT NULL CHECK (memory_limit_bytes > 0),"
    "  compute_request_milli INTEGER NOT NULL CHECK (compute_request_milli BETWEEN 0 AND 1000),"
    "  compute_limit_milli INTEGER NOT NULL CHECK (compute_limit_milli BETWEEN 1 AND 1000),"
    "  mode INTEGER NOT NULL CHECK (mode BETWEEN 0 AND 3),"
    "  priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),"
    "  ephemeral INTEGER NOT NULL CHECK (ephemeral IN (0, 1)),"
    "  frozen INTEGER NOT NULL CHECK (frozen IN (0, 1)),"
    "  created_ns INTEGER NOT NULL"
    ") STRICT;"
    "PRAGMA application_id = " TEXT_OF(APPLICATION_ID) ";"
                                                       "PRAGMA user_version = 1;"
                                                       "COMMIT;",

    "BEGIN IMMEDIATE;"
    "ALTER TABLE vgpu ADD COLUMN state INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 2);"
    "ALTER TABLE vgpu ADD COLUMN template TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE vgpu ADD COLUMN start INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE vgpu ADD COLUMN partition_uuid TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE vgpu ADD COLUMN address TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE vgpu ADD COLUMN slice_memory_bytes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE vgpu ADD COLUMN slice_compute_milli INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE vgpu ADD COLUMN slice_compute_units INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE vgpu ADD COLUMN idle_freeze_s INTEGER NOT NULL DEFAULT 0;"
    "PRAGMA user_version = 2;"
    "COMMIT;",

    "BEGIN IMMEDIATE;"
    "CREATE TABLE reservation ("
    "  position INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL UNIQUE,"
    "  name TEXT NOT NULL UNIQUE,"
    "  strategy INTEGER NOT NULL CHECK (strategy BETWEEN 0 AND 1),"
    "  affinity INTEGER NOT NULL CHECK (affinity BETWEEN 0 AND 2),"
    "  created_ns INTEGER NOT NULL,"
    "  resources BLOB NOT NULL"
    ") STRICT;"
    "ALTER TABLE vgpu ADD COLUMN reservation TEXT NOT NULL DEFAULT '';"
    "PRAGMA user_version = 3;"
    "COMMIT;",

    "BEGIN IMMEDIATE;"
    "ALTER TABLE vgpu ADD COLUMN oversubscribe INTEGER NOT NULL DEFAULT 0 CHECK (oversubscribe IN (0, 1));"
    "PRAGMA user_version = 4;"
    "COMMIT;",

    /* -1: made by a daemon that did not write its owner down, who is the daemon's own user */
    "BEGIN IMMEDIATE;"
    "ALTER TABLE vgpu ADD COLUMN owner INTEGER NOT NULL DEFAULT -1;"
    "ALTER TABLE vgpu ADD COLUMN labels TEXT NOT NULL DEFAULT '';"
    "PRAGMA user_version = 5;"
    "COMMIT;",
};

#endif
