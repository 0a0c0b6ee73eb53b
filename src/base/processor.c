/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *facet_processor_read(const char *key)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char *line = NULL, *found = NULL;
    size_t room = 0;

    while (file && !found && getline(&line, &room, file) > 0) {
        char *colon = strchr(line, ':');

        if (!colon || strncmp(line, key, strlen(key)) != 0 || !strchr(" \t:", line[strlen(key)]))
            continue;
        line[strcspn(line, "\n")] = '\0';
        found = strdup(colon + 1 + (colon[1] == ' '));
    }
    free(line);
    if (file)
        fclose(file);
    return found ? found : strdup("");
}

char *facet_processor_features(void)
{
    char *text = facet_processor_read("flags"), *features = NULL;

    if (text && asprintf(&features, " %s ", text) < 0)
        features = NULL;
    free(text);
    return features;
}
