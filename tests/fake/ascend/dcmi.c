/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake libdcmi.so: eight cards with one 910B3 each, HCCS between all of them, unless the scenario says otherwise.
 *
 * Owns: the answers. Compiled with FAKE_OLD it is an old driver's library, which lacks the functions that came later.
 * Never: uses real hardware.
 */
#include <dlfcn.h>
#include <unistd.h>

#include "fake.h"

#include "../../../providers/ascend/dcmi.h"

/* The declarations with which the provider calls the functions: the compiler checks the definitions against them. */
#define DECLARE(name, parameters) FAKE_API int dcmi_##name parameters;
DCMI_TABLE(DECLARE)

#define NO_SUCH_CARD (-8008) /* the library's code for a device that does not exist */

#define FAIL_IF_CONFIGURED(card)                                                                                       \
    do {                                                                                                               \
        int code_ = fake_failure(__func__, (card));                                                                    \
        if (code_)                                                                                                     \
            return code_;                                                                                              \
        if ((card) >= fake_number("cards", 8))                                                                         \
            return NO_SUCH_CARD;                                                                                       \
    } while (0)

int dcmi_init(void)
{
    return fake_failure(__func__, -1);
}

int dcmi_get_card_list(int *ret_count, int *ret_cards, int capacity)
{
    int code = fake_failure(__func__, -1), cards = (int)fake_number("cards", 8);

    if (code)
        return code;
    for (int i = 0; i < cards && i < capacity; i++)
        ret_cards[i] = (int)fake_card_number("card", i, i);
    *ret_count = (int)fake_number("card_count", cards);
    return 0;
}

int dcmi_get_device_num_in_card(int card, int *ret_chips)
{
    FAIL_IF_CONFIGURED(card);
    *ret_chips = (int)fake_card_number("chips", card, 1);
    return 0;
}

int dcmi_get_device_logic_id(int *ret_logic, int card, int chip)
{
    FAIL_IF_CONFIGURED(card);
    *ret_logic = (int)fake_card_number("logic", card, card * fake_number("chips", 1) + chip);
    return 0;
}

int dcmi_get_device_phyid_from_logicid(unsigned int logic, unsigned int *ret_physical)
{
    FAIL_IF_CONFIGURED(-1);
    *ret_physical = logic + (unsigned)fake_number("physical_base", 0);
    return 0;
}

int dcmi_get_device_chip_info(int card, int chip, struct dcmi_chip_info *ret_info)
{
    FAIL_IF_CONFIGURED(card);
    memset(ret_info, 0, sizeof *ret_info);
    if (fake_number("garbage_text", 0)) {
        memset(ret_info, 0xfe, sizeof *ret_info); /* neither printable nor terminated */
    } else {
        memcpy(ret_info->type, "Ascend", 6);
        memcpy(ret_info->name, "910B3", 5);
        memcpy(ret_info->version, "V1", 2);
    }
    ret_info->ai_cores = (unsigned)fake_card_number("cores", card, 20);
    return 0;
}

int dcmi_get_device_health(int card, int chip, unsigned int *ret_health)
{
    FAIL_IF_CONFIGURED(card);
    *ret_health = (unsigned)fake_card_number("health", card, 0);
    return 0;
}

int dcmi_get_device_frequency(int card, int chip, enum dcmi_clock clock, unsigned int *ret_mhz)
{
    FAIL_IF_CONFIGURED(card);
    *ret_mhz = (unsigned)fake_card_number(clock == DCMI_CLOCK_AI_CORE ? "clock" : "clock_rated", card,
                                          clock == DCMI_CLOCK_AI_CORE ? 800 : 1800);
    return 0;
}

int dcmi_get_device_utilization_rate(int card, int chip, int rate, unsigned int *ret_percent)
{
    FAIL_IF_CONFIGURED(card);
    if (rate == DCMI_RATE_AI_CUBE && !fake_number("has_cube", 1))
        return DCMI_NOT_OFFERED;
    *ret_percent = (unsigned)fake_card_number("percent", card, rate == DCMI_RATE_AI_CORE ? 37 : 12);
    return 0;
}

int dcmi_get_device_temperature(int card, int chip, int *ret_celsius)
{
    FAIL_IF_CONFIGURED(card);
    *ret_celsius = (int)fake_card_number("temperature", card, 46);
    return 0;
}

int dcmi_get_device_power_info(int card, int chip, int *ret_deciwatts)
{
    FAIL_IF_CONFIGURED(card);
    *ret_deciwatts = (int)fake_card_number("power", card, 937);
    return 0;
}

int dcmi_get_device_pcie_info(int card, int chip, struct dcmi_pcie_info *ret_info)
{
    FAIL_IF_CONFIGURED(card);
    *ret_info = (struct dcmi_pcie_info){.bdf_bus = (unsigned)fake_card_number("bus", card, 0x81 + card),
                                        .bdf_function = (unsigned)chip};
    return 0;
}

/* The memory that this process has on a card through the fake libascendcl, in MiB; 0 when that is not loaded. */
static unsigned long long allocated_mib(int card, int chip)
{
    const char *path = getenv("FACET_ASCEND_ACL");
    void *library = path && *path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *symbol = library ? dlsym(library, "fake_ascend_used") : NULL;
    size_t (*used)(int device) = NULL;
    int device = -1;
    unsigned long long bytes = 0;

    memcpy(&used, &symbol, sizeof used);
    if (used && dcmi_get_device_logic_id(&device, card, chip) == 0)
        bytes = used(device);
    if (library)
        dlclose(library);
    return bytes >> 20;
}

int dcmi_get_device_hbm_info(int card, int chip, struct dcmi_hbm_info *ret_info)
{
    FAIL_IF_CONFIGURED(card);
    *ret_info = (struct dcmi_hbm_info){.total = (unsigned long long)fake_card_number("memory", card, 65536),
                                       .clock = 1600,
                                       .used = (unsigned long long)fake_card_number("used", card, 3456) +
                                               allocated_mib(card, chip)};
    return 0;
}

int dcmi_get_device_ecc_info(int card, int chip, enum dcmi_component component, struct dcmi_ecc_info *ret_info)
{
    FAIL_IF_CONFIGURED(card);
    if (component != DCMI_COMPONENT_HBM)
        return DCMI_NOT_OFFERED;
    *ret_info = (struct dcmi_ecc_info){.enabled = (int)fake_card_number("ecc_enabled", card, 1),
                                       .single_total = 3,
                                       .double_total = (unsigned)fake_card_number("ecc", card, 0)};
    return 0;
}

int dcmi_get_driver_version(char *text, unsigned int capacity)
{
    FAIL_IF_CONFIGURED(-1);
    snprintf(text, capacity, "24.1.rc3");
    return 0;
}

#ifndef FAKE_OLD
int dcmi_get_device_type(int card, int chip, enum dcmi_unit *ret_unit)
{
    FAIL_IF_CONFIGURED(card);
    *ret_unit = (enum dcmi_unit)(chip == fake_number("controller", -1));
    return 0;
}

int dcmi_get_device_die_v2(int card, int chip, enum dcmi_die die, struct dcmi_die_id *ret_id)
{
    long long fixed_word = fake_number("die", -1);
    unsigned int chip_number = (unsigned)(card * 16 + chip + 1);

    FAIL_IF_CONFIGURED(card);
    for (unsigned i = 0; i < 5; i++)
        ret_id->words[i] = fixed_word >= 0 ? (unsigned)fixed_word : chip_number * 0x01010101u + i;
    return 0;
}

int dcmi_get_device_pcie_info_v2(int card, int chip, struct dcmi_pcie_info_v2 *ret_info)
{
    FAIL_IF_CONFIGURED(card);
    *ret_info = (struct dcmi_pcie_info_v2){.domain = (int)fake_number("domain", 0),
                                           .bdf_bus = (unsigned)fake_card_number("bus", card, 0x81 + card),
                                           .bdf_function = (unsigned)chip};
    return 0;
}

int dcmi_get_device_resource_info(int card, int chip, struct dcmi_process *ret_processes, int *ret_count)
{
    FAIL_IF_CONFIGURED(card);
    ret_processes[0] = (struct dcmi_process){.pid = (int)getpid(), .memory_bytes = 1ul << 30};
    ret_processes[1] = (struct dcmi_process){.pid = (int)fake_number("pid", 1), .memory_bytes = 12345};
    *ret_count = (int)fake_card_number("processes", card, 2);
    return 0;
}

int dcmi_get_topo_info_by_device_id(int card_a, int chip_a, int card_b, int chip_b, int *ret_way)
{
    char key[32];

    FAIL_IF_CONFIGURED(card_a);
    snprintf(key, sizeof key, "link:%d-%d", card_a, card_b);
    *ret_way =
        (int)fake_number(key, fake_number("link", card_a == card_b ? DCMI_CONNECTION_PACKAGE : DCMI_CONNECTION_HCCS));
    return 0;
}
#endif
