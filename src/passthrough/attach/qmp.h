/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a connection that speaks QMP: commands, their answers, and the events about watched devices.
 * Never: chooses a device or a port to plug.
 */
#ifndef FACET_PASSTHROUGH_ATTACH_QMP_H
#define FACET_PASSTHROUGH_ATTACH_QMP_H

#include <stdbool.h>

#include <jansson.h>

#include "passthrough/attach/layout.h"
#include "passthrough/attach/wire.h"

/* Whether a device that is being unplugged has left. */
struct facet_qmp_watch {
    const char *id;
    bool deleted;
    bool refused; /* the guest refused to give the device up; stays set until the next attempt */
};

struct facet_qmp {
    struct facet_wire wire;
    uint64_t used_ns;  /* how long attaching waits for the guest to use the devices */
    uint32_t version;  /* of QEMU */
    int64_t process;   /* QEMU's pid; 0: unknown */
    json_int_t serial; /* of the last command */
    char driver[FACET_ATTACH_ID_SIZE];
    char *socket;
    struct facet_qmp_watch *watches;
    uint32_t watch_count;
};

/* Reads the greeting on a new connection, and negotiates capabilities. */
enum facet_status facet_qmp_greet(struct facet_qmp *qmp, struct facet_error *error);

/*
 * Sends `command` and waits for its answer. Takes the reference to `arguments`; NULL means that memory ran out. A
 * descriptor `fd` above 0 is sent with the command. `ret_value` may be NULL. A refusal by QEMU is FACET_BAD_STATE, or
 * FACET_NOT_FOUND for its DeviceNotFound, with QEMU's message.
 */
enum facet_status facet_qmp_call(struct facet_qmp *qmp, const char *command, json_t *arguments, int fd,
                                 json_t **ret_value, struct facet_error *error);

/* Waits until `until_ns` for the next event, and notes it in the watches. FACET_TIMEOUT: no event came. */
enum facet_status facet_qmp_listen(struct facet_qmp *qmp, uint64_t until_ns, struct facet_error *error);

/* The VM's state: "running", "paused", "prelaunch", ... */
enum facet_status facet_qmp_state(struct facet_qmp *qmp, char ret_state[FACET_ATTACH_ID_SIZE],
                                  struct facet_error *error);

/* --- the object model: devices and their places (objects.c) --- */

/* The members of an object: an array of {"name", "type"}. */
enum facet_status facet_qmp_list(struct facet_qmp *qmp, const char *path, json_t **ret_members,
                                 struct facet_error *error);
enum facet_status facet_qmp_get(struct facet_qmp *qmp, const char *path, const char *property, json_t **ret_value,
                                struct facet_error *error);

/* The type of the device called `id` among `members` of "/machine/peripheral"; NULL: there is none. */
const char *facet_qmp_type_of(const json_t *members, const char *id);

/* The devices on a bus, as paths. */
enum facet_status facet_qmp_bus_devices(struct facet_qmp *qmp, const char *bus, json_t **ret_paths,
                                        struct facet_error *error);

/* Chooses a root port without a device for each slot: the port that the slot names, or else the first free port in the
 * order of names. `ret_ports` has a row for each slot. */
enum facet_status facet_qmp_choose_ports(struct facet_qmp *qmp, const json_t *peripherals,
                                         const struct facet_attach_layout *layout,
                                         char (*ret_ports)[FACET_ATTACH_ID_SIZE], struct facet_error *error);

static inline void facet_cleanup_json(json_t **json)
{
    json_decref(*json);
}
#define FACET_CLEANUP_JSON __attribute__((cleanup(facet_cleanup_json)))

#endif
