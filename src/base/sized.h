/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs that begin with `uint32_t size`, which the caller sets to the size of its struct. Outputs: a caller that was
 * built against an older header has a smaller struct, and gets exactly that many bytes. Inputs: a caller that was built
 * against a newer header may set members that are unknown here; the call is refused, as it would ignore them silently.
 *
 * Owns: these rules. Never: reads or writes past the size that was set.
 */
#ifndef FACET_BASE_SIZED_H
#define FACET_BASE_SIZED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <facet/error.h>

/* `ret` may be NULL: FACET_INVALID_ARGUMENT, as for a size that was not set. `name` is the argument's. */
static inline enum facet_status facet_sized_check(const char *name, const void *ret, struct facet_error *error)
{
    uint32_t size = 0;

    if (!ret)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: expected a value, not NULL", name);
    memcpy(&size, ret, sizeof size);
    if (size >= sizeof size)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: size %u, expected that of its struct", name,
                                (unsigned)size);
}

/* No newer struct is longer than the known one by more than this: a larger `size` is an uninitialized member. */
#define FACET_SIZED_TAIL 4096u

/*
 * Checks an input of which the first `known` bytes are known here: the bytes behind them must be 0. The caller checks
 * for NULL and short inputs. FACET_UNSUPPORTED: a newer member is set.
 */
static inline enum facet_status facet_sized_known(const char *name, const void *given, size_t known,
                                                  struct facet_error *error)
{
    const unsigned char *bytes = given;
    uint32_t size = 0;

    if (!given)
        return FACET_OK;
    memcpy(&size, given, sizeof size);
    if (size > known + FACET_SIZED_TAIL)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, name,
                                    "%s: size %u, expected that of its struct, %zu", name, (unsigned)size, known);
    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return facet_error_argument(error, FACET_UNSUPPORTED, name,
                                        "%s: byte %zu of %u is set, and this library knows %zu: leave what is newer 0, "
                                        "or use a newer library",
                                        name, i, (unsigned)size, known);
    return FACET_OK;
}

/*
 * Copies a checked input into a struct of `bytes`. Members that an older caller's struct lacks become 0. The copy's
 * `size` is set to `bytes`: the next check of the copy would otherwise read beyond it.
 */
static inline void facet_sized_copy_in(void *ret, const void *given, uint32_t bytes)
{
    uint32_t size;

    memcpy(&size, given, sizeof size);
    memset(ret, 0, bytes);
    memcpy(ret, given, size < bytes ? size : bytes);
    memcpy(ret, &bytes, sizeof bytes);
}

#define FACET_SIZED_TAKE(ret, given) facet_sized_copy_in((ret), (given), sizeof *(ret))

/* For a reserved member of an input, which may have a meaning in a newer library. */
static inline enum facet_status facet_sized_reserved(const char *name, const void *reserved, size_t size,
                                                     struct facet_error *error)
{
    const unsigned char *bytes = reserved;

    for (size_t i = 0; i < size; i++)
        if (bytes[i])
            return facet_error_argument(error, FACET_UNSUPPORTED, "reserved",
                                        "reserved, of %s: expected 0: it has no meaning in this library", name);
    return FACET_OK;
}

/* These two macros return from the function around them, as FACET_NEED() does. `given` may be NULL. */
#define FACET_NEED_KNOWN(name, given, error)                                                                           \
    do {                                                                                                               \
        enum facet_status known_ = facet_sized_known((name), (given), sizeof *(given), (error));                       \
        if (known_ != FACET_OK)                                                                                        \
            return known_;                                                                                             \
    } while (0)
#define FACET_NEED_RESERVED(name, given, error)                                                                        \
    do {                                                                                                               \
        enum facet_status reserved_ =                                                                                  \
            facet_sized_reserved((name), &(given)->reserved, sizeof(given)->reserved, (error));                        \
        if (reserved_ != FACET_OK)                                                                                     \
            return reserved_;                                                                                          \
    } while (0)

/* Copies as much of `whole`, which has `bytes`, as fits into a checked output, and sets the output's size to that. */
static inline void facet_sized_copy_out(void *ret, const void *whole, uint32_t bytes)
{
    uint32_t size;

    memcpy(&size, ret, sizeof size);
    size = size < bytes ? size : bytes;
    memcpy(ret, whole, size);
    memcpy(ret, &size, sizeof size);
}

#endif
