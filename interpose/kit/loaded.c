/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the search through loaded objects. Never: opens anything while the loader's lock is held. dl_iterate_phdr()
 * holds that lock, so the objects are only noted there.
 */
#include "loaded.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTES     8u
#define PATH_SIZE 4096

/* A loaded library whose name is searched, or an object that needs such a library. At most NOTES are kept. */
struct note {
    char object[PATH_SIZE]; /* path of the loaded object; "" is the program */
    char needed[256];       /* the library that it needs; "": the object itself is the library */
};

struct notes {
    const char *name;
    struct note *entries;
    unsigned count;
};

static bool has_name(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');

    return strncmp(slash ? slash + 1 : path, name, strlen(name)) == 0;
}

static void note_object(struct notes *notes, const char *object, const char *needed)
{
    if (notes->count == NOTES)
        return;
    struct note *note = &notes->entries[notes->count++];
    snprintf(note->object, sizeof note->object, "%s", object);
    snprintf(note->needed, sizeof note->needed, "%s", needed);
}

/* The loader has replaced offsets in the dynamic section by addresses, except for objects that are not files. */
static void note_needed(struct notes *notes, const char *object, const ElfW(Dyn) * dynamic, ElfW(Addr) base)
{
    const char *strings = NULL;

    for (const ElfW(Dyn) *at = dynamic; at->d_tag != DT_NULL; at++)
        if (at->d_tag == DT_STRTAB && at->d_un.d_ptr > base)
            strings = (const char *)at->d_un.d_ptr; /* NOLINT(performance-no-int-to-ptr): the loader's */
    for (const ElfW(Dyn) *at = dynamic; strings && at->d_tag != DT_NULL; at++)
        if (at->d_tag == DT_NEEDED && has_name(strings + at->d_un.d_val, notes->name))
            note_object(notes, object, strings + at->d_un.d_val);
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *context)
{
    struct notes *notes = context;

    (void)size;
    if (has_name(info->dlpi_name, notes->name))
        note_object(notes, info->dlpi_name, "");
    if (info->dlpi_name[0] && !strchr(info->dlpi_name, '/'))
        return 0; /* the kernel's vDSO */
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            /* NOLINTNEXTLINE(performance-no-int-to-ptr): where the loader put it */
            note_needed(notes, info->dlpi_name, (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                        info->dlpi_addr);
    return 0;
}

static Dl_serinfo *folders_of(void *handle)
{
    Dl_serinfo size, *folders;

    if (dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) != 0)
        return NULL;
    folders = malloc(size.dls_size);
    if (!folders)
        return NULL;
    *folders = size;
    if (dlinfo(handle, RTLD_DI_SERINFO, folders) == 0)
        return folders;
    free(folders);
    return NULL;
}

/* Tries each folder in which the loader searches for the object's dependency. */
static bool search_note(const struct note *note, bool (*take)(const char *path, void *context), void *context)
{
    void *handle = dlopen(note->object[0] ? note->object : NULL, RTLD_LAZY | RTLD_NOLOAD);
    Dl_serinfo *folders = handle ? folders_of(handle) : NULL;
    char path[PATH_SIZE];
    bool taken = false;

    for (unsigned i = 0; folders && !taken && i < folders->dls_cnt; i++) {
        int written = snprintf(path, sizeof path, "%s/%s", folders->dls_serpath[i].dls_name, note->needed);

        taken = written > 0 && (size_t)written < sizeof path && take(path, context);
    }
    free(folders);
    if (handle)
        dlclose(handle);
    return taken;
}

bool facet_loaded_each(const char *name, bool (*take)(const char *path, void *context), void *context)
{
    struct notes notes = {.name = name, .entries = calloc(NOTES, sizeof *notes.entries)};
    bool taken = false;

    if (!notes.entries)
        return false;
    dl_iterate_phdr(look_at_object, &notes);
    for (unsigned i = 0; i < notes.count && !taken; i++)
        taken = !notes.entries[i].needed[0] && take(notes.entries[i].object, context);
    for (unsigned i = 0; i < notes.count && !taken; i++)
        taken = notes.entries[i].needed[0] && search_note(&notes.entries[i], take, context);
    free(notes.entries);
    return taken;
}
