/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing the reader of facetd.conf. A file that is taken is written again from its values, and read the same. */
#include "conf.h"

#include "fuzz.h"

static char *copy_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    FUZZ_ASSERT(text);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

static void check_taken(const struct conf *conf)
{
    static struct conf again;
    char *text = calloc(FACET_SETTING_COUNT, FACET_PATH_SIZE + 64);
    size_t used = 0;

    FUZZ_ASSERT(text);
    used += (size_t)sprintf(text, "[facetd]\n");
    for (uint32_t id = 0; id < FACET_SETTING_COUNT; id++) {
        const struct facet_setting *setting = facet_config_setting(id);
        uint64_t number;

        if (!conf->values[id][0])
            continue;
        FUZZ_ASSERT(conf_takes((enum facet_setting_id)id));
        FUZZ_ASSERT(!setting->parse || setting->parse(setting, conf->values[id], &number, NULL) == FACET_OK);
        used += (size_t)sprintf(text + used, "%s=%s\n", setting->name, conf->values[id]);
    }
    memset(&again, 0, sizeof again);
    FUZZ_ASSERT(conf_parse(text, &again, NULL) == FACET_OK);
    FUZZ_ASSERT(memcmp(again.values, conf->values, sizeof again.values) == 0);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct conf conf;
    struct facet_error error = {0};
    char *text = copy_text(data, size);

    memset(&conf, 0, sizeof conf);
    enum facet_status status = conf_parse(text, &conf, &error);
    if (status == FACET_OK)
        check_taken(&conf);
    else
        FUZZ_ASSERT(error.status == status && error.message[0]);
    free(text);
    return 0;
}
