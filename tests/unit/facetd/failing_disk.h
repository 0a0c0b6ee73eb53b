/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that fails: an SQLite VFS over the real one. It counts the steps (opening, writing, truncating, syncing,
 * removing), and the step fails whose number was given to disk_arm().
 *
 * Owns: counting the steps and failing one, for test_store.c.
 * Never: fails a read or a lock.
 */
#ifndef FACETD_TEST_FAILING_DISK_H
#define FACETD_TEST_FAILING_DISK_H

#include <stdbool.h>

#include <sqlite3.h>

static struct {
    unsigned steps;     /* done since disk_arm() */
    unsigned fail_at;   /* the step that fails; 0 = none */
    bool keeps_failing; /* all later steps fail, too, as on a full disk */
    int code;           /* SQLite's error of a step that fails */
} disk;

static void disk_arm(unsigned fail_at, bool keeps_failing, int code)
{
    disk.steps = 0;
    disk.fail_at = fail_at;
    disk.keeps_failing = keeps_failing;
    disk.code = code;
}

static bool disk_failed(void)
{
    return disk.fail_at && disk.steps >= disk.fail_at;
}

static int disk_step(void)
{
    disk.steps++;
    if (!disk.fail_at || disk.steps < disk.fail_at)
        return SQLITE_OK;
    return disk.keeps_failing || disk.steps == disk.fail_at ? disk.code : SQLITE_OK;
}

struct disk_file {
    sqlite3_file base;
    sqlite3_file *real;
};

#define REAL(file) (((struct disk_file *)(file))->real)

static int disk_close(sqlite3_file *file)
{
    int code = REAL(file)->pMethods->xClose(REAL(file));

    sqlite3_free(REAL(file));
    return code;
}

static int disk_read(sqlite3_file *file, void *buffer, int size, sqlite3_int64 offset)
{
    return REAL(file)->pMethods->xRead(REAL(file), buffer, size, offset);
}

static int disk_write(sqlite3_file *file, const void *buffer, int size, sqlite3_int64 offset)
{
    int code = disk_step();

    return code ? code : REAL(file)->pMethods->xWrite(REAL(file), buffer, size, offset);
}

static int disk_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int code = disk_step();

    return code ? code : REAL(file)->pMethods->xTruncate(REAL(file), size);
}

static int disk_sync(sqlite3_file *file, int flags)
{
    int code = disk_step();

    return code ? code : REAL(file)->pMethods->xSync(REAL(file), flags);
}

static int disk_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
    return REAL(file)->pMethods->xFileSize(REAL(file), ret_size);
}

static int disk_lock(sqlite3_file *file, int level)
{
    return REAL(file)->pMethods->xLock(REAL(file), level);
}

static int disk_unlock(sqlite3_file *file, int level)
{
    return REAL(file)->pMethods->xUnlock(REAL(file), level);
}

static int disk_check_lock(sqlite3_file *file, int *ret_locked)
{
    return REAL(file)->pMethods->xCheckReservedLock(REAL(file), ret_locked);
}

static int disk_control(sqlite3_file *file, int operation, void *argument)
{
    return REAL(file)->pMethods->xFileControl(REAL(file), operation, argument);
}

static int disk_sector_size(sqlite3_file *file)
{
    return REAL(file)->pMethods->xSectorSize(REAL(file));
}

static int disk_characteristics(sqlite3_file *file)
{
    return REAL(file)->pMethods->xDeviceCharacteristics(REAL(file));
}

/* Version 1 has no shared memory, which a database in exclusive mode does not need. */
static const sqlite3_io_methods disk_methods = {
    1,
    disk_close,
    disk_read,
    disk_write,
    disk_truncate,
    disk_sync,
    disk_size,
    disk_lock,
    disk_unlock,
    disk_check_lock,
    disk_control,
    disk_sector_size,
    disk_characteristics,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs disk_vfs;

static int disk_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *ret_flags)
{
    struct disk_file *opened = (struct disk_file *)file;
    int code = disk_step();

    opened->base.pMethods = NULL;
    if (code)
        return code == SQLITE_FULL ? SQLITE_CANTOPEN : code; /* no file can be created on a full disk */
    opened->real = sqlite3_malloc(real_vfs->szOsFile);
    if (!opened->real)
        return SQLITE_NOMEM;
    code = real_vfs->xOpen(real_vfs, path, opened->real, flags, ret_flags);
    if (code == SQLITE_OK)
        opened->base.pMethods = &disk_methods;
    else
        sqlite3_free(opened->real);
    return code;
}

static int disk_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    int code = disk_step();

    return code ? (code == SQLITE_FULL ? SQLITE_IOERR_DELETE : code) : real_vfs->xDelete(real_vfs, path, sync);
}

static int disk_install(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    disk_vfs = *real_vfs;
    disk_vfs.zName = "disk";
    disk_vfs.szOsFile = sizeof(struct disk_file);
    disk_vfs.pNext = NULL;
    disk_vfs.xOpen = disk_open;
    disk_vfs.xDelete = disk_delete;
    return sqlite3_vfs_register(&disk_vfs, 1);
}

#endif
