/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing devices: which accelerators this machine has, and which providers were refused and why.
 *
 * Owns: the device list, a snapshot taken when it is opened.
 * Never: changes a device, or takes memory on one. A list is not a vGPU and reserves nothing.
 *
 *     struct facet_device_list *list;
 *     struct facet_error error;
 *
 *     if (facet_device_list_open(NULL, &list, &error) != FACET_OK)
 *         return complain(error.message);
 *     for (uint32_t i = 0; i < facet_device_list_count(list); i++)
 *         printf("%s %s\n", facet_device_list_id(list, i), facet_device_list_info(list, i)->name);
 *     facet_device_list_close(list);
 *
 * Owner: the caller owns the list; every pointer got from it is borrowed and ends with facet_device_list_close().
 * Thread rule: open and close from one thread; the rest from any thread in between.
 */
#ifndef FACET_DEVICE_H
#define FACET_DEVICE_H

#include <stdint.h>

#include <facet/error.h>
#include <facet/provider.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The longest device id, terminator included. */
#define FACET_DEVICE_ID_SIZE 64

struct facet_device_list;

/*
 * Asks every provider for its devices. `providers` is a colon-separated list of provider files and of folders that hold
 * "facet-provider-*.so"; NULL means $FACET_PROVIDER_PATH, else the providers that ship with Facet.
 *
 * Each provider runs in a child process of its own, under a deadline: vendor code never runs in the caller, so a
 * provider that crashes or hangs is refused and harms no other. A refused provider does not fail the call; see
 * facet_device_list_refusal().
 * Errors: FACET_NOT_FOUND when there are no shipped providers, FACET_NO_MEMORY, FACET_IO.
 */
FACET_API enum facet_status facet_device_list_open(const char *providers, struct facet_device_list **ret_list,
                                                   struct facet_error *error);

/* NULL is allowed. */
FACET_API void facet_device_list_close(struct facet_device_list *list);

FACET_API uint32_t facet_device_list_count(const struct facet_device_list *list);

/* The id ("opencl:0"), description, near processors and health of the device at `index`. Past the end they are NULL,
 * and the health is FACET_HEALTH_UNKNOWN. Near processors are a list such as "0-1,8"; empty when unknown. */
FACET_API const char *facet_device_list_id(const struct facet_device_list *list, uint32_t index);
FACET_API const struct facet_device_info *facet_device_list_info(const struct facet_device_list *list, uint32_t index);
FACET_API const char *facet_device_list_processors(const struct facet_device_list *list, uint32_t index);
FACET_API enum facet_health facet_device_list_health(const struct facet_device_list *list, uint32_t index);

/*
 * The index in the list of the device that `text` names: by its id ("opencl:0"), its uuid, or its index. NULL means the
 * first device. Errors: FACET_NOT_FOUND lists the devices that there are; FACET_UNSUPPORTED, with the reasons, when
 * there is no device.
 */
FACET_API enum facet_status facet_device_list_find(const struct facet_device_list *list, const char *text,
                                                   uint32_t *ret_index, struct facet_error *error);

/*
 * The provider that was refused at `index`, counted from 0: fills `ret_path` (borrowed) and returns the reason; NULL
 * past the last. `ret_path` may be NULL.
 */
FACET_API const struct facet_error *facet_device_list_refusal(const struct facet_device_list *list, uint32_t index,
                                                              const char **ret_path);

FACET_API const char *facet_device_kind_name(uint32_t kind); /* "cpu", "gpu", "npu", "accelerator", "other" */
FACET_API const char *facet_health_name(uint32_t health);    /* "ok", "degraded", "failed", "unknown" */

#ifdef __cplusplus
}
#endif
#endif
