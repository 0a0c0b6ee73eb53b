/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: options of binding, opening a manager, executing a plan. Never: decides what a plan writes. */
#include "pci_manage.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/paths.h"
#include "pci.h"
#include "terminal.h"

/* ---- options ---- */

static bool read_number(const char *text, uint32_t *ret_number)
{
    char *end = NULL;
    unsigned long number;

    errno = 0;
    number = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || number >= UINT32_MAX)
        return false;
    *ret_number = (uint32_t)number;
    return true;
}

/* Reads "alice", "alice:kvm", "1000" or "1000:78". A text without a group means the user's own group. */
static bool read_owner(const char *text, struct pci_wish *wish)
{
    char user[64];
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);

    if (length == 0 || length >= sizeof user || (colon && !colon[1]))
        return false;
    snprintf(user, sizeof user, "%.*s", (int)length, text);
    const struct passwd *account = getpwnam(user);
    if (account) {
        wish->uid = account->pw_uid;
        wish->gid = account->pw_gid;
    } else if (read_number(user, &wish->uid)) {
        account = getpwuid(wish->uid);
        wish->gid = account ? account->pw_gid : wish->uid;
    } else {
        return false;
    }
    wish->has_owner = true;
    if (!colon)
        return true;
    const struct group *group = getgrnam(colon + 1);
    if (group)
        wish->gid = group->gr_gid;
    return group || read_number(colon + 1, &wish->gid);
}

/* False: the option was refused. */
static bool take_option(const struct command *self, int option, struct pci_wish *wish)
{
    switch (option) {
    case PCI_OPTION_ALONE:
        wish->wish_flags &= ~FACET_PASSTHROUGH_WHOLE_GROUP;
        return true;
    case PCI_OPTION_HEADLESS:
        wish->wish_flags |= FACET_PASSTHROUGH_HEADLESS;
        return true;
    case PCI_OPTION_RESET:
        wish->flags |= FACET_PASSTHROUGH_RESET;
        return true;
    case PCI_OPTION_DRIVER:
        wish->driver = optarg;
        return true;
    case PCI_OPTION_ROOT:
        wish->root = optarg;
        return true;
    case PCI_OPTION_UNBIND:
        wish->unbind = true;
        return true;
    case OPTION_JSON:
        wish->json = true;
        return true;
    case PCI_OPTION_OWNER:
        if (read_owner(optarg, wish))
            return true;
        command_usage(self, "--owner '%s': expected USER or USER:GROUP, by name or number", optarg);
        return false;
    default:
        return false;
    }
}

static bool read_addresses(const struct command *self, int argc, char **argv, struct pci_wish *wish)
{
    struct facet_error error = {0};

    for (int i = optind; i < argc; i++) {
        if (facet_pci_address_parse(argv[i], &wish->addresses[wish->count++], &error) == FACET_OK)
            continue;
        command_usage(self, "%s", error.message);
        return false;
    }
    return true;
}

bool pci_read_wish(const struct command *self, int argc, char **argv, const struct option *words, bool needs_address,
                   struct pci_wish *ret_wish, int *ret_exit)
{
    struct pci_wish wish = {.root = "/", .wish_flags = FACET_PASSTHROUGH_WHOLE_GROUP};

    *ret_exit = EXIT_USAGE;
    for (int option; (option = command_option(self, argc, argv, ":h", words)) != -1;) {
        if (option == 'h')
            *ret_exit = command_help(self);
        if (option == 'h' || !take_option(self, option, &wish))
            return false;
    }
    if (!command_operands(self, argc, argv, needs_address ? 1 : 0, needs_address ? PCI_ADDRESSES_MOST : 0,
                          needs_address ? "ADDRESS" : "") ||
        !read_addresses(self, argc, argv, &wish))
        return false;
    *ret_wish = wish;
    return true;
}

/* Makes the library's request, which points to `ret_inside`. */
static struct facet_passthrough_request make_request(const struct pci_wish *wish,
                                                     struct facet_passthrough_wish *ret_inside)
{
    *ret_inside = (struct facet_passthrough_wish){.size = sizeof *ret_inside,
                                                  .flags = wish->wish_flags,
                                                  .functions = wish->addresses,
                                                  .count = wish->count,
                                                  .own_pid = getpid()};
    return (struct facet_passthrough_request){.size = sizeof(struct facet_passthrough_request),
                                              .flags = wish->flags,
                                              .wish = ret_inside,
                                              .driver = wish->driver};
}

/* ---- the manager ---- */

static void show_progress(void *user, const char *text)
{
    terminal_note_end();
    terminal_note(text);
}

/* Root's folder of journals has mode 0700. */
static bool is_closed_to_user(const char *path)
{
    return geteuid() != 0 && faccessat(AT_FDCWD, path, R_OK | X_OK, AT_EACCESS) < 0 && errno == EACCES;
}

/*
 * Opens the folder of journals, which every user shares, because root binds. A journal decides what is written to which
 * file, so no other user may change it. Without `must_write` the folder may be missing, or closed to this user.
 */
static enum facet_status open_state(const struct command *self, bool must_write, int *ret_fd, struct facet_error *error)
{
    char state[FACET_PATH_SIZE], path[FACET_PATH_SIZE + 16];
    enum facet_status status = facet_path_root_state(state, sizeof state, error);

    if (status)
        return status;
    snprintf(path, sizeof path, "%s/passthrough", state);
    if (!must_write && is_closed_to_user(path)) {
        command_warn(self,
                     "cannot read the journals in %s: which functions Facet bound, and whether a transaction was "
                     "interrupted, is unknown here; run it as root",
                     path);
        return FACET_OK;
    }
    status = must_write ? facet_path_make(path, 0700, error) : facet_path_trust_folder(path, error);
    if (status == FACET_NOT_FOUND && !must_write)
        return FACET_OK;
    if (status)
        return status;
    *ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd < 0)
        return facet_error_errno(error, errno, "cannot open the directory of journals %s", path);
    return FACET_OK;
}

enum facet_status pci_manager_open(const struct command *self, const struct pci_wish *wish, bool must_write,
                                   struct pci_manager *ret_manager, struct facet_error *error)
{
    struct facet_passthrough_config config = {.size = sizeof config,
                                              .has_owner = wish->has_owner,
                                              .uid = wish->uid,
                                              .gid = wish->gid,
                                              .root = -1,
                                              .state = -1,
                                              .progress = show_progress};
    bool is_here = strcmp(wish->root, "/") == 0;
    enum facet_status status = FACET_OK;

    config.root = open(wish->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (config.root < 0)
        return facet_error_errno(error, errno, "cannot open the directory %s", wish->root);
    if (is_here) /* with --root, journals would be about another machine */
        status = open_state(self, must_write, &config.state, error);
    ret_manager->root = config.root;
    ret_manager->state = config.state;
    return status ? status : facet_passthrough_open(&config, &ret_manager->manager, error);
}

void pci_manager_close(struct pci_manager *manager)
{
    facet_passthrough_close(manager->manager);
    if (manager->root > 0)
        close(manager->root);
    if (manager->state > 0)
        close(manager->state);
}

/* A transaction ends within its deadlines; if a signal ended it earlier, recovery would have to undo it. */
void pci_block_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static bool is_worth_a_warning(uint32_t kind)
{
    return kind != FACET_PASSTHROUGH_NOTE_ADOPTED && kind != FACET_PASSTHROUGH_NOTE_STALE &&
           kind != FACET_PASSTHROUGH_NOTE_FAILED; /* its text is that of the error */
}

void pci_warn_notes(const struct command *self, const struct facet_passthrough_report *report)
{
    char address[FACET_PCI_ADDRESS_SIZE];

    bool has_adopted = false; /* if so, the lost notes are only about adopted functions */

    for (uint32_t i = 0; i < report->note_count; i++) {
        const struct facet_passthrough_note *note = &report->notes[i];

        has_adopted = has_adopted || note->kind == FACET_PASSTHROUGH_NOTE_ADOPTED;
        if (!is_worth_a_warning(note->kind))
            continue;
        facet_pci_address_print(&note->address, address);
        command_warn(self, "%s%s%s", note->kind == FACET_PASSTHROUGH_NOTE_DAMAGED ? "" : address,
                     note->kind == FACET_PASSTHROUGH_NOTE_DAMAGED ? "" : " ", note->text);
    }
    if (report->notes_lost > 0 && !has_adopted)
        command_warn(self, "%u more notes did not fit into the report", report->notes_lost);
}

void pci_recover_first(const struct command *self, struct facet_passthrough *manager)
{
    struct facet_passthrough_report report = {.size = sizeof report};
    struct facet_error error = {0};

    if (facet_passthrough_recover(manager, &report, &error) != FACET_OK)
        command_warn(self, "%s", error.message);
    terminal_note_end();
    pci_warn_notes(self, &report);
}

/* ---- executing ---- */

/* Reads the host, because Facet lists only functions that vfio has. */
static int print_returned(const struct command *self, const struct facet_passthrough_plan *plan)
{
    char address[FACET_PCI_ADDRESS_SIZE];
    int exit = EXIT_DONE;
    PCI_CLEANUP_SNAPSHOT struct facet_pci_snapshot *snapshot = pci_look(self, "/", 0, false, &exit);

    for (size_t i = 0; snapshot && i < plan->function_count; i++) {
        const struct facet_pci_function *function = facet_pci_snapshot_find(snapshot, &plan->functions[i].address);

        facet_pci_address_print(&plan->functions[i].address, address);
        if (function && function->driver[0])
            printf("%s is with %s again\n", address, function->driver);
        else
            printf("%s %s\n", address, function ? "has no driver, as before" : "is not on this machine any more");
    }
    return exit;
}

static int print_done(const struct command *self, struct facet_passthrough *manager,
                      const struct facet_passthrough_plan *plan, const struct facet_passthrough_report *report,
                      bool json)
{
    struct facet_passthrough_list *list = NULL;
    struct facet_error error = {0};
    int exit = EXIT_DONE;

    if (json) {
        json_t *object = json_pack("{s:s, s:o, s:o}", "outcome", facet_passthrough_outcome_name(report->outcome),
                                   "notes", pci_notes_json(report), "plan", pci_plan_json(plan));
        exit = object ? command_print_json(object) : command_out_of_memory(self);
        json_decref(object);
        return exit;
    }
    pci_warn_notes(self, report);
    if (plan->direction == FACET_PASSTHROUGH_UNBIND)
        return print_returned(self, plan);
    if (facet_passthrough_look(manager, &list, NULL, &error) != FACET_OK)
        return command_refuse(self, json, &error, NULL);
    if (!pci_print_entries(list, plan))
        exit = command_out_of_memory(self);
    facet_passthrough_list_destroy(list);
    return exit;
}

static const char *advice_of(const struct facet_passthrough_report *report)
{
    if (report->outcome == FACET_PASSTHROUGH_BROKEN)
        return "'facet pci state' shows what is where; 'facet pci recover' goes on with the undoing";
    return report->outcome == FACET_PASSTHROUGH_UNDONE ? "everything is as it was before" : NULL;
}

static int execute_plan(const struct command *self, struct pci_manager *manager,
                        const struct facet_passthrough_plan *plan, bool json)
{
    struct facet_passthrough_report report = {.size = sizeof report};
    struct facet_error error = {0};
    enum facet_status status = plan->direction == FACET_PASSTHROUGH_BIND
                                   ? facet_passthrough_bind(manager->manager, plan, &report, &error)
                                   : facet_passthrough_unbind(manager->manager, plan, &report, &error);

    terminal_note_end();
    if (!status)
        return print_done(self, manager->manager, plan, &report, json);
    pci_warn_notes(self, &report);
    if (report.outcome == FACET_PASSTHROUGH_UNTOUCHED && plan->verdict && !json &&
        plan->verdict->answer != FACET_PASSTHROUGH_YES)
        pci_print_verdict(plan->verdict);
    return command_refuse(self, json, &error, advice_of(&report));
}

enum facet_status pci_make_plan(const struct pci_manager *manager, const struct pci_wish *wish,
                                struct facet_passthrough_plan **ret_plan, struct facet_error *error)
{
    struct facet_passthrough_wish inside;
    struct facet_passthrough_request request = make_request(wish, &inside);

    if (wish->unbind)
        return facet_passthrough_plan_unbind(manager->manager, wish->addresses, wish->count, ret_plan, error);
    return facet_passthrough_plan_bind(manager->manager, &request, ret_plan, error);
}

int pci_change(const struct command *self, int argc, char **argv, const struct option *words, bool unbind)
{
    struct pci_wish wish;
    PCI_CLEANUP_MANAGER struct pci_manager manager = {.root = -1, .state = -1};
    PCI_CLEANUP_PLAN struct facet_passthrough_plan *plan = NULL;
    struct facet_error error = {0};
    int exit;

    if (!pci_read_wish(self, argc, argv, words, true, &wish, &exit))
        return exit;
    wish.unbind = unbind;
    enum facet_status status = pci_manager_open(self, &wish, true, &manager, &error);
    if (status)
        return command_refuse(self, wish.json, &error, NULL);
    pci_block_signals();
    pci_recover_first(self, manager.manager);
    status = pci_make_plan(&manager, &wish, &plan, &error);
    return status ? command_refuse(self, wish.json, &error, NULL) : execute_plan(self, &manager, plan, wish.json);
}
