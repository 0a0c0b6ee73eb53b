/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: moving bytes in a space's store, through its mappings. Never: moves a byte before it has checked the range. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "engine.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

enum facet_status sim_store_write(int store, uint64_t at, const void *data, uint64_t bytes, struct facet_error *error)
{
    for (const char *next = data; bytes > 0;) {
        ssize_t done = pwrite(store, next, smaller(bytes, SSIZE_MAX), (off_t)at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return facet_kit_fail(error, FACET_NO_MEMORY, "no host memory for the contents of a page: %s",
                                  strerror(errno));
        next += done;
        at += (uint64_t)done;
        bytes -= (uint64_t)done;
    }
    return FACET_OK;
}

/* Bytes beyond the end of the file read as zeros, as holes do. */
enum facet_status sim_store_read(int store, uint64_t at, void *ret_data, uint64_t bytes, struct facet_error *error)
{
    for (char *next = ret_data; bytes > 0;) {
        ssize_t done = pread(store, next, smaller(bytes, SSIZE_MAX), (off_t)at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return facet_kit_fail(error, FACET_IO, "the contents of a page cannot be read: %s", strerror(errno));
        if (done == 0) {
            memset(next, 0, bytes);
            break;
        }
        next += done;
        at += (uint64_t)done;
        bytes -= (uint64_t)done;
    }
    return FACET_OK;
}

bool sim_store_data(int store, struct sim_range range, struct sim_range *ret_data)
{
    off_t end = (off_t)(range.at + range.bytes);
    off_t first = lseek(store, (off_t)range.at, SEEK_DATA);

    if (first < 0 || first >= end)
        return false;
    off_t hole = lseek(store, first, SEEK_HOLE);
    if (hole < 0 || hole > end)
        hole = end;
    *ret_data = (struct sim_range){(uint64_t)first, (uint64_t)(hole - first)};
    return true;
}

bool sim_store_forget(int store, struct sim_range range)
{
    return fallocate(store, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)range.at, (off_t)range.bytes) == 0;
}

/* The longest piece from `address`, at most `bytes`, that is contiguous in the store. 0: not memory. */
static uint64_t contiguous_piece(const struct sim_space *space, uint64_t address, uint64_t bytes, uint64_t *ret_at)
{
    size_t above = sim_table_above(&space->mappings, address);
    const struct sim_mapping *mapping = above ? space->mappings.entries[above - 1].value : NULL;

    if (!mapping || address - mapping->range.at >= mapping->range.bytes)
        return 0;
    uint64_t inside = address - mapping->range.at;
    *ret_at = mapping->pages->extent->range.at + mapping->offset + inside;
    return smaller(bytes, mapping->range.bytes - inside);
}

bool sim_space_is_memory(const struct sim_space *space, uint64_t address, uint64_t bytes)
{
    uint64_t at;

    while (bytes > 0) {
        uint64_t length = contiguous_piece(space, address, bytes, &at);

        if (length == 0)
            return false;
        address += length;
        bytes -= length;
    }
    return true;
}

static enum facet_status check_range(const struct sim_space *space, uint64_t address, uint64_t bytes,
                                     struct facet_error *error)
{
    if (sim_space_is_memory(space, address, bytes))
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "address %#" PRIx64 ", bytes %" PRIu64 ": expected all of it to be memory", address, bytes);
}

/* write_pieces() and read_pieces() move bytes through the mappings of a range that was checked. */
static enum facet_status write_pieces(const struct sim_space *space, uint64_t address, const void *data, uint64_t bytes,
                                      struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    uint64_t at = 0;

    for (uint64_t done = 0, length; done < bytes && status == FACET_OK; done += length) {
        length = contiguous_piece(space, address + done, bytes - done, &at);
        status = sim_store_write(space->store, at, (const char *)data + done, length, error);
    }
    return status;
}

static enum facet_status read_pieces(const struct sim_space *space, uint64_t address, void *ret_data, uint64_t bytes,
                                     struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    uint64_t at = 0;

    for (uint64_t done = 0, length; done < bytes && status == FACET_OK; done += length) {
        length = contiguous_piece(space, address + done, bytes - done, &at);
        status = sim_store_read(space->store, at, (char *)ret_data + done, length, error);
    }
    return status;
}

enum facet_status sim_space_write(struct sim_space *space, uint64_t address, const void *data, uint64_t bytes,
                                  struct facet_error *error)
{
    enum facet_status status = check_range(space, address, bytes, error);

    return status == FACET_OK ? write_pieces(space, address, data, bytes, error) : status;
}

enum facet_status sim_space_read(const struct sim_space *space, uint64_t address, uint64_t bytes, void *ret_data,
                                 struct facet_error *error)
{
    enum facet_status status = check_range(space, address, bytes, error);

    return status == FACET_OK ? read_pieces(space, address, ret_data, bytes, error) : status;
}

enum facet_status sim_space_copy(struct sim_space *space, uint64_t to, uint64_t from, uint64_t bytes,
                                 struct facet_error *error)
{
    enum facet_status status = check_range(space, to, bytes, error);
    char chunk[SIM_CHUNK_BYTES];
    bool backwards = to > from; /* so that no byte is overwritten before it was read */

    if (status == FACET_OK)
        status = check_range(space, from, bytes, error);
    for (uint64_t done = 0, length; done < bytes && status == FACET_OK; done += length) {
        length = smaller(bytes - done, sizeof chunk);
        uint64_t at = backwards ? bytes - done - length : done;

        status = read_pieces(space, from + at, chunk, length, error);
        if (status == FACET_OK)
            status = write_pieces(space, to + at, chunk, length, error);
    }
    return status;
}

enum facet_status sim_space_fill(struct sim_space *space, uint64_t address, uint8_t value, uint64_t bytes,
                                 struct facet_error *error)
{
    enum facet_status status = check_range(space, address, bytes, error);
    char chunk[SIM_CHUNK_BYTES];

    memset(chunk, value, sizeof chunk);
    for (uint64_t done = 0, length; done < bytes && status == FACET_OK; done += length) {
        length = smaller(bytes - done, sizeof chunk);
        status = write_pieces(space, address + done, chunk, length, error);
    }
    return status;
}
