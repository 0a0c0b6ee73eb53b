/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: loading images: the bytes are written to a file without a name, which is loaded into this process.
 * Never: gives the loader bytes that elf_image.c did not accept.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu.h"

#include "base/quiet.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

static enum facet_status write_all(int fd, const void *bytes, uint64_t size, struct facet_error *error)
{
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    for (uint64_t done = 0; done < size;) {
        ssize_t written = write(fd, (const char *)bytes + done, size - done);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return facet_kit_fail(error, FACET_NO_MEMORY, "no room for an image of %" PRIu64 " bytes: %s", size,
                                  strerror(errno));
        done += (uint64_t)written;
    }
    return FACET_OK;
}

/* Linux before 6.3 does not know MFD_EXEC, and lets every file be executed. */
static int make_file(void)
{
    int fd = memfd_create("facet-kernel", MFD_CLOEXEC | MFD_EXEC);

    return fd < 0 && errno == EINVAL ? memfd_create("facet-kernel", MFD_CLOEXEC) : fd;
}

/*
 * The object's name is /proc/self/fd/FD. The loader takes objects of the same name to be the same object. So the file
 * stays open, and no other object gets its name.
 */
static enum facet_status open_object(struct cpu_module *module, struct facet_error *error)
{
    char name[64];

    snprintf(name, sizeof name, "/proc/self/fd/%d", module->fd);
    module->object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (module->object)
        return FACET_OK;
    return facet_kit_fail(error, FACET_CORRUPT, "image: expected one that can be loaded: %.160s", dlerror());
}

static enum facet_status open_table(struct cpu_module *module, const char *features, struct facet_error *error)
{
    const struct facet_host_image *image = dlsym(module->object, FACET_HOST_IMAGE_NAME);
    struct link_map *map = NULL;

    if (!image || dlinfo(module->object, RTLD_DI_LINKMAP, &map) != 0)
        return facet_kit_fail(error, FACET_CORRUPT, "image: expected the symbol " FACET_HOST_IMAGE_NAME);
    module->base = map->l_addr;
    enum facet_status status = cpu_image_check(image, &module->elf, module->base, features, error);
    if (status != FACET_OK)
        return status;
    if (image->check)
        *image->check = &cpu_check_functions;
    module->image = image;
    return FACET_OK;
}

static enum facet_status load_image(struct cpu_module *module, const char *features, const void *image, uint64_t bytes,
                                    struct facet_error *error)
{
    enum facet_status status = cpu_elf_check(image, bytes, &module->elf, error);

    if (status != FACET_OK)
        return status;
    module->fd = make_file();
    if (module->fd < 0)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no file for an image: %s", strerror(errno));
    status = write_all(module->fd, image, bytes, error);
    if (status == FACET_OK)
        status = open_object(module, error);
    return status == FACET_OK ? open_table(module, features, error) : status;
}

static bool is_conformance(const void *image, uint64_t bytes)
{
    return bytes == sizeof CPU_CONFORMANCE_NAME - 1 && memcmp(image, CPU_CONFORMANCE_NAME, bytes) == 0;
}

enum facet_status cpu_module_load(struct facet_provider_instance *instance, const void *image, uint64_t bytes,
                                  struct cpu_module **ret_module, struct facet_error *error)
{
    if (is_conformance(image, bytes)) {
        image = cpu_conformance_image;
        bytes = cpu_conformance_image_size;
    }
    if (bytes > FACET_HOST_IMAGE_MOST)
        return facet_kit_fail(error, FACET_CORRUPT, "image of %" PRIu64 " bytes: expected at most %" PRIu64, bytes,
                              FACET_HOST_IMAGE_MOST);
    struct cpu_module *module = calloc(1, sizeof *module);
    if (!module)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a module");
    module->fd = -1;
    enum facet_status status = load_image(module, instance->features, image, bytes, error);
    if (status == FACET_OK)
        *ret_module = module;
    else
        cpu_module_free(module);
    return status;
}

void cpu_module_free(struct cpu_module *module)
{
    if (module->object)
        dlclose(module->object);
    if (module->fd >= 0)
        close(module->fd);
    free(module);
}

static int compare_kernel(const void *key, const void *item)
{
    return strcmp(key, ((const struct facet_host_kernel *)item)->name);
}

const struct facet_host_kernel *cpu_module_kernel(const struct cpu_module *module, const char *name)
{
    return bsearch(name, module->image->kernels, module->image->kernel_count, sizeof *module->image->kernels,
                   compare_kernel);
}

bool cpu_module_has(const struct cpu_module *module, uint64_t address, uint64_t bytes)
{
    for (uint32_t i = 0; i < module->elf.count; i++) {
        uint64_t at = module->base + module->elf.parts[i].at, size = module->elf.parts[i].bytes;

        if (address >= at && address - at <= size && bytes <= size - (address - at))
            return true;
    }
    return false;
}

struct cpu_module *cpu_module_find(struct cpu_context *context, uint64_t number)
{
    struct cpu_module *module;

    TAILQ_FOREACH (module, &context->modules, link)
        if (module->number == number)
            return module;
    return NULL;
}
