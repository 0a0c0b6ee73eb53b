/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: replaying a corpus through a fuzz target without libFuzzer, so that the corpus is a test with every compiler.
 * usage: replay_X FOLDER      exit status 1 if the folder has no input
 */
#include <dirent.h>

#include "base/cleanup.h"
#include "fuzz.h"

static void replay_file(const char *path)
{
    static uint8_t data[1 << 16];
    FACET_CLEANUP_FILE FILE *file = fopen(path, "rb");

    FUZZ_ASSERT(file);
    size_t size = fread(data, 1, sizeof data, file);
    FUZZ_ASSERT(!ferror(file) && feof(file));
    LLVMFuzzerTestOneInput(data, size);
}

int main(int count, char **arguments)
{
    FACET_CLEANUP_DIR DIR *folder = count == 2 ? opendir(arguments[1]) : NULL;
    unsigned replayed = 0;

    FUZZ_ASSERT(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[1024];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", arguments[1], entry->d_name);
        replay_file(path);
        replayed++;
    }
    return replayed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
