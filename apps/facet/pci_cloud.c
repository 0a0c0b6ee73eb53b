/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the calls to Cloud Hypervisor's API. Never: takes a status other than 200 and 204 for success. */
#include "pci_cloud.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "client.h"
#include "http.h"

enum { ANSWER_MAX = 4 << 20, HTTP_NO_CONTENT = 204, HTTP_OK = 200 };

/* The interval at which wait_removed() polls the device tree. */
#define POLL_NS (50 * FACET_NS_PER_MS)
/* The time that remove_added() may take beyond the deadline. */
#define UNDO_NS (2 * FACET_NS_PER_S)

struct exchange {
    const char *socket;
    const char *method;
    const char *path; /* "vm.info" */
    const char *body; /* NULL: none */
    uint64_t deadline_ns;
};

static long remaining_ms(uint64_t deadline_ns)
{
    uint64_t now = facet_clock_now_ns();

    /* 0 would mean no timeout. */
    return deadline_ns > now + FACET_NS_PER_MS ? (long)((deadline_ns - now) / FACET_NS_PER_MS) : 1;
}

static enum facet_status fail_call(const struct http_failure *failure, struct facet_error *error)
{
    switch (failure->kind) {
    case HTTP_TIMED_OUT:
        return facet_error_set(error, FACET_TIMEOUT, "no answer in time");
    case HTTP_TOO_LONG:
        return facet_error_set(error, FACET_CORRUPT, "an answer above %d MiB", ANSWER_MAX >> 20);
    case HTTP_NO_MEMORY:
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a call");
    case HTTP_NOT_CONNECTED:
    case HTTP_BROKEN:
    case HTTP_OTHER_USER: /* never happens: `own_user_only` is not set, because the VM may be another user's */
        break;
    }
    return facet_error_set(error, FACET_IO, "%s", failure->reason);
}

/* The body of a refusal is a JSON list of causes, or plain text. */
static enum facet_status fail_refused(const struct http_answer *answer, struct facet_error *error)
{
    char words[240] = "";

    CLIENT_CLEANUP_JSON json_t *json = answer->text ? json_loadb(answer->text, answer->length, 0, NULL) : NULL;
    for (size_t i = 0; json_is_array(json) && i < json_array_size(json); i++) {
        const char *cause = json_string_value(json_array_get(json, i));
        size_t used = strlen(words);
        if (cause)
            snprintf(words + used, sizeof words - used, "%s%s", used ? ": " : "", cause);
    }
    if (!words[0] && answer->text)
        snprintf(words, sizeof words, "%s", answer->text);
    return facet_error_set(error, answer->status == 404 ? FACET_NOT_FOUND : FACET_BAD_STATE,
                           "Cloud Hypervisor refuses (%ld): %s", answer->status, words[0] ? words : "without a reason");
}

static enum facet_status send_request(const struct exchange *exchange, struct http_answer *ret_answer,
                                      struct facet_error *error)
{
    char url[128];
    struct http *http = NULL;
    struct http_failure failure;
    const struct http_call call = {.socket = exchange->socket,
                                   .method = exchange->method,
                                   .url = url,
                                   .body = exchange->body,
                                   .answer_most = ANSWER_MAX,
                                   .timeout_ms = remaining_ms(exchange->deadline_ns)};
    enum facet_status status = http_open(&http, error);

    if (status != FACET_OK)
        return status;
    snprintf(url, sizeof url, "http://localhost/api/v1/%.60s", exchange->path);
    if (!http_exchange(http, &call, ret_answer, &failure))
        status = fail_call(&failure, error);
    http_close(http);
    return status;
}

static enum facet_status call_vmm(const struct exchange *exchange, json_t **ret_json, struct facet_error *error)
{
    struct http_answer answer = {0};
    enum facet_status status = send_request(exchange, &answer, error);

    if (status == FACET_OK && answer.status != HTTP_OK && answer.status != HTTP_NO_CONTENT)
        status = fail_refused(&answer, error);
    if (status == FACET_OK && ret_json) {
        *ret_json = json_loadb(answer.text ? answer.text : "", answer.length, 0, NULL);
        if (!*ret_json)
            status = facet_error_set(error, FACET_CORRUPT, "an answer that is not JSON");
    }
    free(answer.text);
    return status == FACET_OK ? FACET_OK : facet_error_prefix(error, "%s", exchange->path);
}

/* --- attach --- */

static enum facet_status put_request(const struct pci_attachment *attachment, const char *path, const char *body,
                                     uint64_t deadline_ns, struct facet_error *error)
{
    const struct exchange exchange = {
        .socket = attachment->socket, .method = "PUT", .path = path, .body = body, .deadline_ns = deadline_ns};

    return call_vmm(&exchange, NULL, error);
}

/* Removes the first `count` functions again. Adds "; left in the VM: ..." to the error if some stay. */
static void remove_added(const struct pci_attachment *attachment, const struct facet_attach_texts *removals,
                         uint32_t count, struct facet_error *error)
{
    char remaining[160] = "", id[FACET_ATTACH_ID_SIZE];
    uint64_t deadline_ns = facet_clock_now_ns() + UNDO_NS;
    struct facet_error original = *error, ignored;

    for (uint32_t i = count; i > 0; i--) {
        size_t used = strlen(remaining);
        enum facet_status status =
            put_request(attachment, "vm.remove-device", facet_attach_texts_at(removals, i - 1), deadline_ns, &ignored);
        facet_attach_id(&attachment->functions[i - 1], id);
        /* The last function may never have been added, so Cloud Hypervisor may refuse to remove that one. */
        if (status != FACET_OK && !(i == count && (status == FACET_BAD_STATE || status == FACET_NOT_FOUND)))
            snprintf(remaining + used, sizeof remaining - used, "%s'%s'", used ? ", " : "", id);
    }
    if (remaining[0])
        facet_error_argument(error, original.status, original.argument, "%s; left in the VM: %s", original.message,
                             remaining);
}

static enum facet_status prefix_vmm(const struct pci_attachment *attachment, struct facet_error *error)
{
    return facet_error_prefix(error, "Cloud Hypervisor on '%.120s'", attachment->socket);
}

static enum facet_status check_socket(const struct pci_attachment *attachment, struct facet_error *error)
{
    const size_t longest = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;
    size_t length = strlen(attachment->socket);

    if (length > 0 && length <= longest)
        return FACET_OK;
    return facet_error_argument(error, FACET_OUT_OF_RANGE, "socket", "socket: a path of %zu bytes, expected 1 to %zu",
                                length, longest);
}

enum facet_status pci_cloud_attach(const struct pci_attachment *attachment, struct facet_attach_report *ret_reports,
                                   struct facet_error *error)
{
    PCI_CLEANUP_TEXTS struct facet_attach_texts *bodies = NULL;
    PCI_CLEANUP_TEXTS struct facet_attach_texts *removals = NULL;
    enum facet_status status = check_socket(attachment, error);
    uint32_t added = 0;

    if (status == FACET_OK)
        status = facet_attach_render(FACET_ATTACH_CLOUD_ADD, &attachment->request, &bodies, error);
    if (status == FACET_OK)
        status = facet_attach_render(FACET_ATTACH_CLOUD_REMOVE, &attachment->request, &removals, error);
    if (status != FACET_OK)
        return status;
    for (; status == FACET_OK && added < attachment->request.count; added++) {
        facet_attach_id(&attachment->functions[added], ret_reports[added].id);
        status = put_request(attachment, "vm.add-device", facet_attach_texts_at(bodies, added), attachment->deadline_ns,
                             error);
        if (status != FACET_OK)
            facet_error_prefix(error, "'%s'", ret_reports[added].id);
    }
    if (status == FACET_OK)
        return FACET_OK;
    /* A function that was refused is not in the VM; one whose call got no answer may be. */
    remove_added(attachment, removals, status == FACET_BAD_STATE || status == FACET_NOT_FOUND ? added - 1 : added,
                 error);
    return prefix_vmm(attachment, error);
}

/* --- detach --- */

static enum facet_status get_info(const struct pci_attachment *attachment, json_t **ret_info, struct facet_error *error)
{
    const struct exchange exchange = {
        .socket = attachment->socket, .method = "GET", .path = "vm.info", .deadline_ns = attachment->deadline_ns};

    return call_vmm(&exchange, ret_info, error);
}

static enum facet_status find_device(const struct pci_attachment *attachment, const char *id, bool *ret_present,
                                     struct facet_error *error)
{
    CLIENT_CLEANUP_JSON json_t *info = NULL;
    enum facet_status status = get_info(attachment, &info, error);

    if (status != FACET_OK)
        return status;
    const json_t *tree = json_object_get(info, "device_tree");
    if (!json_is_object(tree))
        return facet_error_set(error, FACET_UNSUPPORTED, "vm.info: expected a device_tree");
    *ret_present = json_object_get(tree, id) != NULL;
    return FACET_OK;
}

/* Whether a device of the VM is this function. Its path may end in a slash. */
static bool is_device_path(const json_t *device, const struct facet_attach_function *function)
{
    char expected[128], address[FACET_PCI_ADDRESS_SIZE];
    const char *path = json_string_value(json_object_get(device, "path"));

    facet_pci_address_print(&function->address, address);
    int length = function->mdev ? snprintf(expected, sizeof expected, "/sys/bus/mdev/devices/%.60s", function->mdev)
                                : snprintf(expected, sizeof expected, "/sys/bus/pci/devices/%s", address);
    return path && strncmp(path, expected, (size_t)length) == 0 && (!path[length] || strcmp(path + length, "/") == 0);
}

/*
 * Finds the id of a function whose id the caller did not give. A device from the VM's command line may have any id, so
 * its path is searched for; if no device has that path, the id is the one that Facet gives.
 */
static enum facet_status find_id(const struct pci_attachment *attachment, const struct facet_attach_function *function,
                                 char ret_id[FACET_ATTACH_ID_SIZE], struct facet_error *error)
{
    CLIENT_CLEANUP_JSON json_t *info = NULL;
    const json_t *devices, *device;
    size_t index;
    enum facet_status status = function->id ? FACET_OK : get_info(attachment, &info, error);

    facet_attach_id(function, ret_id);
    devices = json_object_get(json_object_get(info, "config"), "devices");
    json_array_foreach (devices, index, device) {
        const char *id = json_string_value(json_object_get(device, "id"));
        if (id && strlen(id) < FACET_ATTACH_ID_SIZE && is_device_path(device, function))
            snprintf(ret_id, FACET_ATTACH_ID_SIZE, "%s", id);
    }
    return status;
}

static enum facet_status wait_removed(const struct pci_attachment *attachment, const char *id,
                                      struct facet_error *error)
{
    const struct timespec pause = facet_ns_timespec(POLL_NS);

    for (;;) {
        bool present = false;
        enum facet_status status = find_device(attachment, id, &present, error);
        if (status != FACET_OK || !present)
            return status;
        if (facet_clock_now_ns() >= attachment->deadline_ns)
            return facet_error_set(error, FACET_TIMEOUT,
                                   "the guest has not given it up in time; it is still in the VM");
        nanosleep(&pause, NULL);
    }
}

static enum facet_status detach_function(const struct pci_attachment *attachment,
                                         const struct facet_attach_function *function, struct facet_error *error)
{
    char id[FACET_ATTACH_ID_SIZE];
    enum facet_status status = find_id(attachment, function, id, error);
    CLIENT_CLEANUP_JSON json_t *body = json_pack("{s:s}", "id", id);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    if (status == FACET_OK && !text)
        status = facet_error_set(error, FACET_NO_MEMORY, "no memory for a call");
    if (status == FACET_OK)
        status = put_request(attachment, "vm.remove-device", text, attachment->deadline_ns, error);
    if (status == FACET_OK)
        status = wait_removed(attachment, id, error);
    free(text);
    return status == FACET_OK ? FACET_OK : facet_error_prefix(error, "'%s'", id);
}

enum facet_status pci_cloud_detach(const struct pci_attachment *attachment, struct facet_error *error)
{
    PCI_CLEANUP_TEXTS struct facet_attach_texts *bodies = NULL;
    enum facet_status status = check_socket(attachment, error);

    /* The texts are not used: rendering them checks the whole request before the first function is removed. */
    if (status == FACET_OK)
        status = facet_attach_render(FACET_ATTACH_CLOUD_REMOVE, &attachment->request, &bodies, error);
    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; status == FACET_OK && i < attachment->request.count; i++)
        status = detach_function(attachment, &attachment->functions[i], error);
    return status == FACET_OK ? FACET_OK : prefix_vmm(attachment, error);
}
