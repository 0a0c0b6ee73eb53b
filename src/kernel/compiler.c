/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: facet_compiler_*, and facet_compile(), which looks in the cache first. Never: opens LLVM for a cached image. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sized.h"
#include "kernel/cache.h"
#include "kernel/options.h"
#include "kernel/plugin.h"

/* How long a thread waits while another thread or process compiles the same source. Then it compiles by itself. */
#define COMPILE_WAIT_NS (60 * FACET_NS_PER_S)

struct facet_compiler {
    struct facet_cache cache;
    pthread_mutex_t lock;                /* protects the members below */
    const struct facet_backend *backend; /* NULL until something had to be compiled */
    XXH128_hash_t identity;              /* of the backend, as it was when the backend was opened */
};

static enum facet_status check_options(const struct facet_compiler_options *given, struct facet_compiler_options *copy,
                                       struct facet_error *error)
{
    *copy = (struct facet_compiler_options){.size = sizeof *copy};
    if (given && given->size < sizeof given->size)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "options", "size %u: expected at least %zu",
                                    given->size, sizeof given->size);
    FACET_NEED_KNOWN("options", given, error);
    if (given)
        FACET_SIZED_TAKE(copy, given);
    if (copy->cache_mode > FACET_CACHE_BYPASS)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "cache_mode",
                                    "cache_mode %u: expected an enum facet_cache_mode", copy->cache_mode);
    return FACET_OK;
}

enum facet_status facet_compiler_create(const struct facet_compiler_options *options,
                                        struct facet_compiler **ret_compiler, struct facet_error *error)
{
    struct facet_compiler_options copy;
    enum facet_status status = check_options(options, &copy, error);
    FACET_CLEANUP_FREE struct facet_compiler *compiler = calloc(1, sizeof *compiler);

    if (status == FACET_OK && !compiler)
        status = facet_error_set(error, FACET_NO_MEMORY, "no memory for a compiler");
    if (status == FACET_OK)
        status = facet_cache_open(&copy, &compiler->cache, error);
    if (status != FACET_OK)
        return status;
    pthread_mutex_init(&compiler->lock, NULL);
    *ret_compiler = FACET_TAKE_PTR(compiler);
    return FACET_OK;
}

void facet_compiler_destroy(struct facet_compiler *compiler)
{
    if (!compiler)
        return;
    facet_cache_close(&compiler->cache);
    pthread_mutex_destroy(&compiler->lock);
    free(compiler);
}

/* Once the backend is open its identity is fixed: it still compiles when newer files replace it on disk. */
static enum facet_status identify_compiler(struct facet_compiler *compiler, XXH128_hash_t *ret_identity,
                                           struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&compiler->lock);
    if (!compiler->backend)
        status = facet_plugin_identify(&compiler->identity, error);
    *ret_identity = compiler->identity;
    pthread_mutex_unlock(&compiler->lock);
    return status;
}

static enum facet_status open_backend(struct facet_compiler *compiler, const struct facet_backend **ret_backend,
                                      uint64_t *ret_load_ns, struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    uint64_t begin = facet_clock_now_ns();

    *ret_load_ns = 0;
    pthread_mutex_lock(&compiler->lock);
    if (!compiler->backend) {
        status = facet_plugin_open(&compiler->backend, error);
        *ret_load_ns = facet_clock_now_ns() - begin;
    }
    *ret_backend = compiler->backend;
    pthread_mutex_unlock(&compiler->lock);
    return status;
}

/* The table of targets may be newer than the LLVM that Facet was built with. */
static enum facet_status check_known(const struct facet_backend *backend, const struct facet_target *target,
                                     struct facet_error *error)
{
    const char *family = facet_target_family_name(target->family);

    if (target->family == FACET_TARGET_SPIRV || !target->processor[0] || backend->knows(family, target->processor))
        return FACET_OK;
    if (target->family == FACET_TARGET_HOST)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "target",
                                    "target '%s': the compiler (%s) knows no such processor; expected one such as "
                                    "host:x86-64-v3 or host:znver4",
                                    target->name, backend->version);
    return facet_error_argument(error, FACET_UNSUPPORTED, "target",
                                "target '%s' is not known to the compiler of this build (%s); build Facet with a newer "
                                "LLVM, and with -D%s=enabled",
                                target->name, backend->version, target->family == FACET_TARGET_PTX ? "cuda" : "rocm");
}

static enum facet_status add_remarks(struct facet_image *image, const struct facet_backend_result *result,
                                     struct facet_error *error)
{
    for (uint32_t i = 0; i < result->diagnostic_count; i++) {
        const struct facet_backend_diagnostic *sent = &result->diagnostics[i];
        const struct facet_diagnostic diagnostic = {sent->severity, sent->line, sent->column, sent->file, sent->text};

        if (!facet_image_remark(image, &diagnostic))
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for the compiler's remarks");
    }
    return FACET_OK;
}

static enum facet_status make_image(const struct facet_target *target, const struct facet_backend_result *result,
                                    struct facet_image **ret_image, struct facet_error *error)
{
    FACET_CLEANUP_IMAGE struct facet_image *image = NULL;
    struct facet_error wrong;
    enum facet_status status =
        facet_image_create(result->image, result->bytes, result->description,
                           result->description ? strlen(result->description) : 0, target->name, &image, &wrong);

    if (status == FACET_CORRUPT) /* a fault of our own compiler, not of the source */
        return facet_error_set(error, FACET_INTERNAL, "the compiler describes its own image wrongly: %s",
                               wrong.message);
    if (status != FACET_OK && error)
        *error = wrong;
    if (status == FACET_OK)
        status = add_remarks(image, result, error);
    if (status == FACET_OK)
        status = facet_manifest_make(result->reads, result->read_count, &image->manifest, error);
    if (status != FACET_OK)
        return status;
    image->unrepeatable = result->unrepeatable;
    struct facet_compile_statistics *statistics = &image->statistics;
    statistics->valid = FACET_COMPILE_HAS_STAGES;
    statistics->peak_bytes = result->peak_bytes;
    statistics->frontend_ns = result->frontend_ns;
    statistics->library_ns = result->library_ns;
    statistics->optimize_ns = result->optimize_ns;
    statistics->generate_ns = result->generate_ns;
    statistics->link_ns = result->link_ns;
    *ret_image = FACET_TAKE_PTR(image);
    return FACET_OK;
}

/* The first error, in the form that compilers use: "saxpy.cl:3:5: error: ...". */
static enum facet_status refuse_source(const struct facet_image *image, struct facet_error *error)
{
    for (uint32_t i = 0; i < image->diagnostic_count; i++) {
        const struct facet_diagnostic *diagnostic = &image->diagnostics[i];

        if (diagnostic->severity == FACET_SEVERITY_ERROR && diagnostic->line)
            return facet_error_argument(error, FACET_CORRUPT, "source", "%s:%u:%u: error: %s", diagnostic->file,
                                        diagnostic->line, diagnostic->column, diagnostic->text);
        if (diagnostic->severity == FACET_SEVERITY_ERROR)
            return facet_error_argument(error, FACET_CORRUPT, "source", "error: %s", diagnostic->text);
    }
    return FACET_CORRUPT; /* the compiler has filled `error` already */
}

/* Calls the compiler. With FACET_CORRUPT there is an image, too, which has no code. */
static enum facet_status call_backend(const struct facet_backend *backend, const struct facet_compile_job *job,
                                      struct facet_image **ret_image, struct facet_error *error)
{
    struct facet_backend_result result = {0};
    struct facet_error ignored;
    enum facet_status status = backend->compile(&job->request, &result, error);

    if (status == FACET_OK || (status == FACET_CORRUPT && result.diagnostic_count)) {
        enum facet_status made;

        if (status == FACET_CORRUPT)
            result.bytes = 0;
        made = make_image(&job->target, &result, ret_image, status == FACET_OK ? error : &ignored);
        if (status == FACET_OK)
            status = made;
        else if (made == FACET_OK)
            status = refuse_source(*ret_image, error);
    }
    backend->clear(&result);
    return status;
}

static enum facet_status compile_now(struct facet_compiler *compiler, const struct facet_compile_job *job,
                                     struct facet_image **ret_image, struct facet_error *error)
{
    const struct facet_backend *backend;
    uint64_t load_ns;
    enum facet_status status = open_backend(compiler, &backend, &load_ns, error);

    if (status == FACET_OK)
        status = check_known(backend, &job->target, error);
    if (status == FACET_OK)
        status = call_backend(backend, job, ret_image, error);
    if (*ret_image)
        (*ret_image)->statistics.load_ns = load_ns;
    return status;
}

/* Of several threads and processes with the same compile, one compiles while it holds the key's lock. The others find
 * the image in the cache when they get the lock. */
static enum facet_status compile_once(struct facet_compiler *compiler, const struct facet_compile_job *job,
                                      struct facet_image **ret_image, struct facet_error *error)
{
    const struct facet_cache *cache = &compiler->cache;
    struct facet_cache_key key;
    XXH128_hash_t identity;
    bool looks = cache->mode == FACET_CACHE_USE || cache->mode == FACET_CACHE_READ_ONLY;
    enum facet_status status = identify_compiler(compiler, &identity, error);

    if (status == FACET_OK)
        status = facet_cache_key_make(job, identity, &key, error);
    if (status != FACET_OK)
        return status;
    if (looks && (*ret_image = facet_cache_find(cache, &key)))
        return FACET_OK;
    int lock = facet_cache_lock(cache, &key, COMPILE_WAIT_NS);
    if (cache->mode == FACET_CACHE_USE)
        *ret_image = facet_cache_find(cache, &key);
    if (!*ret_image) {
        status = compile_now(compiler, job, ret_image, error);
        if (status == FACET_OK)
            (void)facet_cache_keep(cache, &key, *ret_image, &(*ret_image)->uncached);
    }
    facet_cache_unlock(cache, &key, lock);
    return status;
}

/* Adds the warning that the image is unchecked. It is added after the image was cached, since a later compile of the
 * same source may not ask for the check. */
static enum facet_status remark_unchecked(struct facet_image *image, const struct facet_target *target,
                                          struct facet_error *error)
{
    char text[FACET_TARGET_SIZE + 80];
    const struct facet_diagnostic diagnostic = {.severity = FACET_SEVERITY_WARNING, .file = "", .text = text};

    snprintf(text, sizeof text, "FACET_CHECK: target '%s' has no checked images; this one is not checked",
             target->name);
    return facet_image_remark(image, &diagnostic)
               ? FACET_OK
               : facet_error_set(error, FACET_NO_MEMORY, "no memory for the compiler's remarks");
}

static void finish_statistics(const struct facet_cache *cache, struct facet_image *image, uint64_t begin_ns)
{
    struct facet_compile_statistics *statistics = &image->statistics;
    struct rusage usage;

    statistics->cache_hit = !(statistics->valid & FACET_COMPILE_HAS_STAGES);
    statistics->image_bytes = image->size;
    if (cache->folder_error.status != FACET_OK)
        image->uncached = cache->folder_error;
    statistics->cache_status = (int32_t)image->uncached.status;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        uint64_t process_bytes = (uint64_t)usage.ru_maxrss * 1024;
        statistics->peak_bytes = process_bytes > statistics->peak_bytes ? process_bytes : statistics->peak_bytes;
        statistics->valid |= FACET_COMPILE_HAS_PEAK;
    }
    statistics->total_ns = facet_clock_now_ns() - begin_ns;
}

enum facet_status facet_compile(struct facet_compiler *compiler, const void *source, size_t bytes,
                                const struct facet_compile_options *options, struct facet_image **ret_image,
                                struct facet_error *error)
{
    uint64_t begin_ns = facet_clock_now_ns();
    struct facet_image *image = NULL;
    struct facet_compile_job job;

    if (!compiler || !ret_image)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, compiler ? "ret_image" : "compiler",
                                    "%s is NULL; expected a pointer", compiler ? "ret_image" : "compiler");
    enum facet_status status = facet_compile_job_init(source, bytes, options, &job, error);
    if (status != FACET_OK)
        return status;
    status = compiler->cache.folder >= 0 ? compile_once(compiler, &job, &image, error)
                                         : compile_now(compiler, &job, &image, error);
    if (!image)
        return status;
    finish_statistics(&compiler->cache, image, begin_ns);
    if (status == FACET_OK && job.unchecked)
        status = remark_unchecked(image, &job.target, error);
    *ret_image = image;
    return status;
}
