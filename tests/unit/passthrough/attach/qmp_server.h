/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a stand-in for QEMU's monitor with two root ports. At any of its answers it can fail, stall, split the answer
 * or give an invalid answer.
 * Never: allocates: the tests make the memory of the code under test run out, in the same process.
 */
#ifndef FACET_TEST_QMP_SERVER_H
#define FACET_TEST_QMP_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Faults of one answer. */
enum server_fault {
    FAULT_NONE,
    FAULT_REFUSE,       /* an error, as QEMU refuses */
    FAULT_CLOSE,        /* closes before the answer; the command is done */
    FAULT_CUT,          /* closes in the middle of the answer */
    FAULT_SILENCE,      /* the command is done, but not answered */
    FAULT_GARBAGE,      /* no JSON */
    FAULT_ARRAY,        /* JSON, but no object */
    FAULT_NUMBER,       /* a number where an answer should be */
    FAULT_OTHER_ANSWER, /* the answer to another command */
    FAULT_EMPTY_ANSWER, /* neither a return nor an error */
    FAULT_HUGE,         /* a line that does not end */
    FAULT_FLOOD,        /* events that do not end */
    FAULTS,
};

struct server_device {
    char id[64];
    int port;
    int function;
};

struct server {
    pthread_t thread;
    int listener;
    char path[96];
    char folder[64];
    pthread_mutex_t turn; /* held while a client is served */
    /* Set before a test connects, by server_set(). */
    enum server_fault fault;
    int fault_at;                /* the number of the answer, the greeting being 1; 0: none */
    bool in_pieces;              /* answers are sent a byte at a time */
    bool sends_events;           /* an event is sent before each answer */
    bool keeps_devices;          /* the guest does not release its devices */
    bool reports_refusal;        /* the monitor reports that the guest refused */
    bool reports_unplug_pending; /* an unplug is pending already: "already in the process of unplug" */
    const char *state;
    /* Read after the server closed. */
    atomic_int answers;
    struct server_device devices[16];
    int device_count;
    bool object;
    int descriptors; /* descriptors received */
    atomic_bool stopping;
};

static inline bool server_send(const struct server *server, int fd, const char *text, size_t length)
{
    size_t piece = server->in_pieces ? 1 : length;

    for (size_t at = 0; at < length; at += piece)
        if (send(fd, text + at, piece < length - at ? piece : length - at, MSG_NOSIGNAL) < 0)
            return false;
    return true;
}

static inline void server_flood(const struct server *server, int fd, const char *text)
{
    static char many[16384];
    size_t length = strlen(text), used = 0;

    for (; used + length <= sizeof many; used += length)
        memcpy(many + used, text, length);
    while (!atomic_load(&server->stopping) && send(fd, many, used, MSG_NOSIGNAL) > 0)
        ;
}

/* Finds the value of `"name":"..."` in a command. */
static inline void server_find(const char *line, const char *name, char *ret_value, size_t size)
{
    char key[48];

    snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = strstr(line, key);
    snprintf(ret_value, size, "%.*s", at ? (int)strcspn(at + strlen(key), "\"") : 0, at ? at + strlen(key) : "");
}

static inline void server_list(const struct server *server, const char *path, char *answer, size_t size)
{
    size_t used = (size_t)snprintf(answer, size, "[{\"name\":\"type\",\"type\":\"string\"}");
    bool top = strcmp(path, "/machine/peripheral") == 0;

    for (int port = 1; top && port <= 2; port++)
        used += (size_t)snprintf(answer + used, size - used, ",{\"name\":\"rp%d\",\"type\":\"child<pcie-root-port>\"}",
                                 port);
    for (int i = 0; i < server->device_count; i++) {
        char bus[64];
        snprintf(bus, sizeof bus, "/machine/peripheral/rp%d/rp%d", server->devices[i].port, server->devices[i].port);
        if (top)
            used += (size_t)snprintf(answer + used, size - used, ",{\"name\":\"%s\",\"type\":\"child<vfio-pci>\"}",
                                     server->devices[i].id);
        else if (strcmp(path, bus) == 0)
            used += (size_t)snprintf(answer + used, size - used, ",{\"name\":\"child[%d]\",\"type\":\"link<x>\"}", i);
    }
    if (server->object && strcmp(path, "/objects") == 0)
        used += (size_t)snprintf(answer + used, size - used, ",{\"name\":\"iommufd0\",\"type\":\"child<iommufd>\"}");
    snprintf(answer + used, size - used, "]");
}

static inline const struct server_device *server_device(const struct server *server, const char *id)
{
    for (int i = 0; i < server->device_count; i++)
        if (strcmp(server->devices[i].id, id) == 0)
            return &server->devices[i];
    return NULL;
}

/* Returns false if there is no such property. */
static inline bool server_get(const struct server *server, const char *line, char *answer, size_t size)
{
    char path[128], property[64];

    server_find(line, "path", path, sizeof path);
    server_find(line, "property", property, sizeof property);
    const char *name = strrchr(path, '/') + 1;
    const struct server_device *device = server_device(server, name);
    if (strcmp(property, "hotplug") == 0)
        snprintf(answer, size, "true");
    else if (strncmp(property, "child[", 6) == 0)
        snprintf(answer, size, "\"/machine/peripheral/%s\"", server->devices[atoi(property + 6)].id);
    else if (device && strcmp(property, "parent_bus") == 0)
        snprintf(answer, size, "\"/machine/peripheral/rp%d/rp%d\"", device->port, device->port);
    else if (device && strcmp(property, "addr") == 0)
        snprintf(answer, size, "%d", device->function);
    else if (device && strcmp(property, "host") == 0)
        snprintf(answer, size, "\"0000:aa:00.%d\"", device->function);
    else
        return false;
    return true;
}

static inline void server_pci(const struct server *server, char *answer, size_t size)
{
    size_t used = (size_t)snprintf(answer, size,
                                   "[{\"bus\":0,\"devices\":[{\"qdev_id\":\"rp1\",\"pci_bridge\":"
                                   "{\"devices\":[");

    for (int i = 0; i < server->device_count; i++)
        used += (size_t)snprintf(answer + used, size - used,
                                 "%s{\"qdev_id\":\"%s\",\"regions\":[{\"bar\":0,\"address\":4096}]}", i ? "," : "",
                                 server->devices[i].id);
    snprintf(answer + used, size - used, "]}}]}]");
}

static inline void server_add(struct server *server, const char *line)
{
    struct server_device *device = &server->devices[server->device_count++];
    const char *arguments = strstr(line, "\"arguments\"");
    char text[64];

    server_find(arguments, "id", device->id, sizeof device->id);
    server_find(arguments, "bus", text, sizeof text);
    device->port = atoi(text + 2);
    server_find(arguments, "addr", text, sizeof text);
    device->function = text[strlen(text) - 1] - '0';
}

static inline bool server_remove(struct server *server, const char *id)
{
    for (int i = 0; i < server->device_count; i++) {
        if (strcmp(server->devices[i].id, id) != 0)
            continue;
        server->devices[i] = server->devices[--server->device_count];
        return true;
    }
    return false;
}

/* Removing function 0 removes the whole slot. */
static inline void server_unplug(struct server *server, const char *id, char *events, size_t size)
{
    const struct server_device *found = server_device(server, id);
    size_t used = 0;

    if (!found || server->keeps_devices)
        return;
    if (server->reports_refusal) {
        snprintf(events, size, "{\"event\":\"DEVICE_UNPLUG_GUEST_ERROR\",\"data\":{\"device\":\"%s\"}}\n", id);
        return;
    }
    struct server_device removed = *found;
    for (int i = server->device_count; i > 0; i--) {
        struct server_device device = server->devices[i - 1];
        bool is_companion = device.port == removed.port && removed.function == 0;
        if (strcmp(device.id, id) != 0 && !is_companion)
            continue;
        server_remove(server, device.id);
        used += (size_t)snprintf(events + used, size - used,
                                 "{\"event\":\"DEVICE_DELETED\",\"data\":{\"path\":\"/x\"}}\n"
                                 "{\"event\":\"DEVICE_DELETED\",\"data\":{\"device\":\"%s\"}}\n",
                                 device.id);
    }
}

/* Returns false if the command is refused; `value` then gives the reason. */
static inline bool server_execute(struct server *server, const char *line, char *value, size_t size, char *events,
                                  size_t event_size)
{
    char command[32], text[128];

    server_find(line, "execute", command, sizeof command);
    snprintf(value, size, "{}");
    if (strcmp(command, "qom-list") == 0) {
        server_find(line, "path", text, sizeof text);
        server_list(server, text, value, size);
    } else if (strcmp(command, "qom-get") == 0) {
        snprintf(value, size, "{\"class\":\"GenericError\",\"desc\":\"Property not found\"}");
        return server_get(server, line, value, size);
    } else if (strcmp(command, "query-status") == 0) {
        snprintf(value, size, "{\"status\":\"%s\"}", server->state);
    } else if (strcmp(command, "query-pci") == 0) {
        server_pci(server, value, size);
    } else if (strcmp(command, "device_add") == 0) {
        server_add(server, line);
    } else if (strcmp(command, "object-add") == 0 || strcmp(command, "object-del") == 0) {
        server->object = strcmp(command, "object-add") == 0;
    } else if (strcmp(command, "device_del") == 0) {
        server_find(strstr(line, "\"arguments\""), "id", text, sizeof text);
        snprintf(value, size, "{\"class\":\"DeviceNotFound\",\"desc\":\"Device '%s' not found\"}", text);
        if (!server_device(server, text))
            return false;
        server_unplug(server, text, events, event_size);
        snprintf(value, size,
                 server->reports_unplug_pending
                     ? "{\"class\":\"GenericError\",\"desc\":\"Device %s is already in the process "
                       "of unplug\"}"
                     : "{}",
                 text);
        return !server->reports_unplug_pending;
    }
    return true;
}

/* Returns false if the connection has ended. */
static inline bool server_fail(const struct server *server, int fd, const char *answer, int serial)
{
    static const char event[] = "{\"event\":\"RTC_CHANGE\",\"data\":{\"offset\":0}}\n";
    char text[160];

    switch (server->fault) {
    case FAULT_CLOSE:
        return false;
    case FAULT_CUT:
        server_send(server, fd, answer, strlen(answer) / 2);
        return false;
    case FAULT_SILENCE:
        return true;
    case FAULT_GARBAGE:
        return server_send(server, fd, "\x01\xff{]\n", 5);
    case FAULT_ARRAY:
        return server_send(server, fd, "[1]\n", 4);
    case FAULT_HUGE:
        server_flood(server, fd, "0123456789abcdef0123456789abcdef");
        return false;
    case FAULT_FLOOD:
        server_flood(server, fd, event);
        return false;
    case FAULT_REFUSE:
        snprintf(text, sizeof text, "{\"error\":{\"class\":\"GenericError\",\"desc\":\"not today\"},\"id\":%d}\n",
                 serial);
        break;
    case FAULT_NUMBER:
        snprintf(text, sizeof text, "{\"return\":7,\"id\":%d}\n", serial);
        break;
    case FAULT_OTHER_ANSWER:
        snprintf(text, sizeof text, "{\"return\":{},\"id\":%d}\n", serial + 1000);
        break;
    default:
        snprintf(text, sizeof text, "{\"id\":%d}\n", serial);
        break;
    }
    return server_send(server, fd, text, strlen(text));
}

static inline bool server_answer(struct server *server, int fd, const char *line)
{
    static char value[8192], answer[8400], events[2048];
    const char *id = strstr(line, "\"id\":");
    int serial = id ? atoi(id + 5) : 0;
    bool fails = ++server->answers == server->fault_at;

    events[0] = '\0';
    /* A refused command is not done; with other faults the command may be done. */
    bool good = fails && server->fault == FAULT_REFUSE
                    ? false
                    : server_execute(server, line, value, sizeof value, events, sizeof events);
    snprintf(answer, sizeof answer, "{\"%s\":%s,\"id\":%d}\n", good ? "return" : "error", value, serial);
    if (server->sends_events && !server_send(server, fd, "{\"event\":\"VSERPORT_CHANGE\"}\n", 28))
        return false;
    if (!(fails ? server_fail(server, fd, answer, serial) : server_send(server, fd, answer, strlen(answer))))
        return false;
    return server_send(server, fd, events, strlen(events));
}

/* Receives one byte, and a descriptor that comes with it. */
static inline bool server_receive(struct server *server, int fd, char *ret_byte)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {.iov_base = ret_byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};

    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != 1)
        return false;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS) {
        int received = -1;
        memcpy(&received, CMSG_DATA(header), sizeof received);
        server->descriptors++;
        close(received);
    }
    return true;
}

static inline void server_serve(struct server *server, int fd)
{
    static const char greeting[] = "{\"QMP\":{\"version\":{\"qemu\":{\"micro\":1,\"minor\":1,\"major\":9},\"package\":"
                                   "\"\"},\"capabilities\":[\"oob\"]}}\n";
    static char line[8192];
    size_t used = 0;

    if (++server->answers == server->fault_at) {
        if (server->fault == FAULT_REFUSE || !server_fail(server, fd, greeting, 0))
            return;
    } else if (!server_send(server, fd, greeting, strlen(greeting))) {
        return;
    }
    for (char byte; server_receive(server, fd, &byte);) {
        line[used++] = byte;
        if (byte != '\n' && used + 1 < sizeof line)
            continue;
        line[used] = '\0';
        used = 0;
        if (!server_answer(server, fd, line))
            return;
    }
}

/* Changes how the server behaves, once it has served the previous client. */
#define server_set(server, change)                                                                                     \
    do {                                                                                                               \
        pthread_mutex_lock(&(server)->turn);                                                                           \
        (server)->change;                                                                                              \
        pthread_mutex_unlock(&(server)->turn);                                                                         \
    } while (0)

static inline void *server_run(void *context)
{
    struct server *server = context;

    for (int fd; (fd = accept(server->listener, NULL, NULL)) >= 0;) {
        pthread_mutex_lock(&server->turn);
        server_serve(server, fd);
        pthread_mutex_unlock(&server->turn);
        close(fd);
    }
    return NULL;
}

static inline bool server_start(struct server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    *server = (struct server){.turn = PTHREAD_MUTEX_INITIALIZER, .state = "running"};
    snprintf(server->folder, sizeof server->folder, "/tmp/facet-qmp-XXXXXX");
    if (!mkdtemp(server->folder))
        return false;
    snprintf(server->path, sizeof server->path, "%s/qmp", server->folder);
    memcpy(address.sun_path, server->path, strlen(server->path));
    server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(server->listener, (const struct sockaddr *)&address, sizeof address) == 0 &&
           listen(server->listener, 4) == 0 && pthread_create(&server->thread, NULL, server_run, server) == 0;
}

/* Waits until all earlier commands are done, since the server serves one client after the other. */
static inline void server_settle(const struct server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char byte;

    memcpy(address.sun_path, server->path, strlen(server->path));
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0 || recv(fd, &byte, 1, 0) != 1)
        abort();
    close(fd);
}

static inline void server_stop(struct server *server)
{
    atomic_store(&server->stopping, true);
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
    unlink(server->path);
    rmdir(server->folder);
}

#endif
