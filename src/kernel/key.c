/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: hashing a compile. Never: hashes a text without its length, so that a byte moved from one text to the next
 * changes the key. */
#include "kernel/key.h"

#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "base/cleanup.h"
#include "base/processor.h"

/* To be changed whenever the meaning of a cache entry's bytes changes. */
static const char format[] = "facet kernel cache 1";

static void add_to_key(XXH3_state_t *state, const void *bytes, size_t size)
{
    uint64_t length = size;

    XXH3_128bits_update(state, &length, sizeof length);
    XXH3_128bits_update(state, bytes, size);
}

static void add_text(XXH3_state_t *state, const char *text)
{
    add_to_key(state, text, strlen(text));
}

static void add_number(XXH3_state_t *state, uint64_t number)
{
    XXH3_128bits_update(state, &number, sizeof number);
}

/*
 * Adds the processor's model, the features that it reports, and the features that Linux lets programs use. Fields
 * that differ between cores (identifiers in leaf 1) are left out.
 */
static enum facet_status add_processor(XXH3_state_t *state, struct facet_error *error)
{
    FACET_CLEANUP_FREE char *features = facet_processor_features();

    if (!features)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a key of the kernel cache");
    add_text(state, features);
#if defined(__x86_64__) || defined(__i386__)
    static const unsigned leaves[][2] = {{0, 0},    {1, 0},    {7, 0},    {7, 1},          {0x14, 0},
                                         {0x19, 0}, {0x1e, 0}, {0x24, 0}, {0x80000001, 0}, {0x80000008, 0}};

    for (size_t i = 0; i < sizeof leaves / sizeof leaves[0]; i++) {
        unsigned words[4] = {0};
        __get_cpuid_count(leaves[i][0], leaves[i][1], &words[0], &words[1], &words[2], &words[3]);
        if (leaves[i][0] == 1)
            words[1] = 0;
        add_to_key(state, words, sizeof words);
    }
#endif
    add_number(state, getauxval(AT_HWCAP));
    add_number(state, getauxval(AT_HWCAP2));
    return FACET_OK;
}

static void free_state(XXH3_state_t **state)
{
    XXH3_freeState(*state);
}

enum facet_status facet_cache_key_make(const struct facet_compile_job *job, XXH128_hash_t compiler,
                                       struct facet_cache_key *ret_key, struct facet_error *error)
{
    const struct facet_backend_request *request = &job->request;
    __attribute__((cleanup(free_state))) XXH3_state_t *state = XXH3_createState();
    enum facet_status status = FACET_OK;
    XXH128_canonical_t canonical;

    if (!state)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a key of the kernel cache");
    XXH3_128bits_reset(state);
    add_to_key(state, format, sizeof format);
    add_to_key(state, &compiler, sizeof compiler);
    add_to_key(state, request->source, request->bytes);
    add_text(state, request->name);
    add_text(state, request->target);
    add_number(state, request->source_kind);
    add_number(state, request->optimize);
    add_number(state, request->check);
    for (const char *const *argument = request->arguments; argument && *argument; argument++)
        add_text(state, *argument);
    if (job->target.family == FACET_TARGET_HOST && !job->target.processor[0])
        status = add_processor(state, error);
    if (status != FACET_OK)
        return status;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(ret_key->bytes, canonical.digest, sizeof ret_key->bytes);
    return FACET_OK;
}

void facet_cache_key_print(const struct facet_cache_key *key, char text[33])
{
    for (size_t i = 0; i < sizeof key->bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", key->bytes[i]);
}
