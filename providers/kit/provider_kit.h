/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small helpers for providers, so that each keeps the rules of facet/provider.h in the same way.
 *
 * Owns: checking the host's version, filling texts, the two-call listing, made-up stable uuids, error texts.
 * Never: needs a library. A provider compiles against include/facet/ and this header, and links to neither libfacet
 * nor the kit; hence static functions only.
 *
 * providers/null shows all of it in use.
 */
#ifndef FACET_PROVIDER_KIT_H
#define FACET_PROVIDER_KIT_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <facet/provider.h>

#define FACET_KIT_UNUSED __attribute__((unused))

/* Fills `error` (when not NULL) and returns `status`: providers do not link to the library that has facet_error_set. */
FACET_KIT_UNUSED FACET_PRINTF(3, 4) static enum facet_status
    facet_kit_fail(struct facet_error *error, enum facet_status status, const char *format, ...)
{
    va_list arguments;

    if (!error)
        return status;
    error->status = status;
    error->argument[0] = '\0';
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return status;
}

/* What an entry point does first: the major version must be the one that this provider was built for. */
FACET_KIT_UNUSED static enum facet_status facet_kit_check_host(const struct facet_provider_host *host)
{
    if (host->size >= sizeof *host && host->abi_major == FACET_PROVIDER_ABI_MAJOR)
        return FACET_OK;
    /* The place of `error` is not known in a host of another major version, so it is not written to. */
    return FACET_ABI_MISMATCH;
}

/* Copies `source` as printable ASCII without blanks at its ends, cut to fit; what is not printable becomes '_'. */
FACET_KIT_UNUSED static void facet_kit_text(char *target, size_t size, const char *source)
{
    size_t length = 0;

    while (*source == ' ')
        source++;
    for (; length + 1 < size && source[length]; length++)
        target[length] = source[length] < 0x20 || source[length] > 0x7e ? '_' : source[length];
    while (length > 0 && target[length - 1] == ' ')
        length--;
    target[length] = '\0';
}

/* The same for an array member. */
#define FACET_KIT_TEXT(array, source) facet_kit_text((array), sizeof(array), (source))

/*
 * The two-call rule of facet_device_ops.list: gives out all of `devices`, or says how much room they need. Copies no
 * more of each than the host's struct has room for.
 */
FACET_KIT_UNUSED static enum facet_status facet_kit_list(const struct facet_device_info *devices, uint32_t count,
                                                         void *infos, uint32_t info_size, uint32_t capacity,
                                                         uint32_t *ret_count, struct facet_error *error)
{
    uint32_t size = info_size < sizeof *devices ? info_size : (uint32_t)sizeof *devices;

    if (size < sizeof devices->size)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "info_size %" PRIu32 ": expected at least %zu", info_size,
                              sizeof devices->size);
    *ret_count = count;
    if (capacity < count)
        return FACET_TOO_SMALL;
    for (uint32_t i = 0; i < count; i++) {
        struct facet_device_info copy = devices[i];

        copy.size = size;
        memcpy((char *)infos + (size_t)i * info_size, &copy, size);
    }
    return FACET_OK;
}

/* Sixteen bytes as people write a uuid. `ret_text` has room for 37 bytes. */
FACET_KIT_UNUSED static void facet_kit_uuid_text(const unsigned char bytes[16], char *ret_text)
{
    for (int i = 0, at = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            ret_text[at++] = '-';
        at += snprintf(ret_text + at, 3, "%02x", bytes[i]);
    }
}

__extension__ typedef unsigned __int128 facet_kit_u128;

/*
 * A uuid for a device that has none of its own: the 128-bit FNV-1a hash of a text that stays the same across restarts,
 * marked as version 8 (RFC 9562: made by the application's own rule). Not for secrets. `ret_text`: 37 bytes.
 */
FACET_KIT_UNUSED static void facet_kit_uuid_of(const char *text, char *ret_text)
{
    const facet_kit_u128 prime = ((facet_kit_u128)1 << 88) + 0x13b;
    facet_kit_u128 hash = ((facet_kit_u128)UINT64_C(0x6c62272e07bb0142) << 64) + UINT64_C(0x62b821756295c58d);
    unsigned char bytes[16];

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * prime;
    for (int i = 15; i >= 0; i--, hash >>= 8)
        bytes[i] = (unsigned char)hash;
    bytes[6] = (unsigned char)(0x80 | (bytes[6] & 0x0f)); /* version 8 */
    bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3f)); /* variant */
    facet_kit_uuid_text(bytes, ret_text);
}

#endif
