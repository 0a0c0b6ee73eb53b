/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: `facet pci state` and `facet pci recover`: where functions are, and undoing what a crash interrupted.
 * Never: binds a function.
 */
#include <stdio.h>

#include "pci.h"
#include "pci_manage.h"
#include "terminal.h"

static int print_list(const struct command *self, const struct facet_passthrough_list *list,
                      const struct facet_passthrough_report *report, bool json)
{
    json_t *object;
    int exit;

    if (!json) {
        pci_warn_notes(self, report);
        if (list->count == 0)
            printf("no accelerators, nothing is with vfio, and nothing was bound\n");
        return pci_print_entries(list, NULL) ? EXIT_DONE : command_out_of_memory(self);
    }
    object = json_pack("{s:o, s:o}", "functions", pci_entries_json(list), "notes", pci_notes_json(report));
    exit = object ? command_print_json(object) : command_out_of_memory(self);
    json_decref(object);
    return exit;
}

static int run_state(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {
        {"root", required_argument, NULL, PCI_OPTION_ROOT},
        COMMAND_OPTION_HELP,
        COMMAND_OPTION_JSON,
        COMMAND_OPTION_END,
    };
    struct pci_wish wish;
    PCI_CLEANUP_MANAGER struct pci_manager manager = {.root = -1, .state = -1};
    struct facet_passthrough_list *list = NULL;
    struct facet_passthrough_report report = {.size = sizeof report};
    struct facet_error error = {0};
    int exit;

    if (!pci_read_wish(self, argc, argv, words, false, &wish, &exit))
        return exit;
    if (pci_manager_open(self, &wish, false, &manager, &error) != FACET_OK ||
        facet_passthrough_look(manager.manager, &list, &report, &error) != FACET_OK)
        return command_refuse(self, wish.json, &error, NULL);
    exit = print_list(self, list, &report, wish.json);
    facet_passthrough_list_destroy(list);
    return exit;
}

const struct command command_pci_state = {
    .name = "pci state",
    .help = "usage: facet pci state [--root DIR] [--json]\n"
            "\n"
            "Where each accelerator is, and each function that vfio has or Facet bound:\n"
            "\n"
            "  host       with one of the host's drivers, or with none\n"
            "  detaching  being bound, or a transaction was interrupted\n"
            "  ready      with vfio, and no process has it open\n"
            "  in_vm      with vfio, and a virtual machine has it open\n"
            "  returning  being given back, or that was interrupted\n"
            "  stuck      a write to the kernel has not returned\n"
            "  lost       listed, and does not answer\n"
            "  absent     bound, and not on this machine any more\n"
            "\n"
            "  --root DIR      look at the copy of another machine below DIR\n"
            "  --json          print the list as JSON\n",
    .run = run_state,
};

/* ---- recovering ---- */

static void print_note(const struct facet_passthrough_note *note)
{
    char address[FACET_PCI_ADDRESS_SIZE];

    facet_pci_address_print(&note->address, address);
    printf("%s %s: %s\n", facet_passthrough_note_name(note->kind),
           note->kind == FACET_PASSTHROUGH_NOTE_DAMAGED ? "journal" : address, note->text);
}

static int print_report(const struct command *self, const struct facet_passthrough_report *report, bool json)
{
    int exit = EXIT_DONE;

    if (json) {
        json_t *object = json_pack("{s:s, s:o}", "outcome", facet_passthrough_outcome_name(report->outcome), "notes",
                                   pci_notes_json(report));
        exit = object ? command_print_json(object) : command_out_of_memory(self);
        json_decref(object);
    }
    for (uint32_t i = 0; !json && i < report->note_count; i++)
        print_note(&report->notes[i]);
    if (!json && report->notes_lost > 0)
        printf("%u more notes did not fit into the report\n", report->notes_lost);
    if (!json && report->note_count == 0)
        printf("nothing is bound, and nothing was interrupted\n");
    return report->outcome == FACET_PASSTHROUGH_BROKEN ? EXIT_REFUSED : exit;
}

static int run_recover(const struct command *self, int argc, char **argv)
{
    static const struct option words[] = {COMMAND_OPTION_HELP, COMMAND_OPTION_JSON, COMMAND_OPTION_END};
    struct pci_wish wish;
    PCI_CLEANUP_MANAGER struct pci_manager manager = {.root = -1, .state = -1};
    struct facet_passthrough_report report = {.size = sizeof report};
    struct facet_error error = {0};
    int exit;

    if (!pci_read_wish(self, argc, argv, words, false, &wish, &exit))
        return exit;
    if (pci_manager_open(self, &wish, true, &manager, &error) != FACET_OK)
        return command_refuse(self, wish.json, &error, NULL);
    pci_block_signals();
    enum facet_status status = facet_passthrough_recover(manager.manager, &report, &error);
    terminal_note_end();
    return status ? command_refuse(self, wish.json, &error, NULL) : print_report(self, &report, wish.json);
}

const struct command command_pci_recover = {
    .name = "pci recover",
    .help = "usage: facet pci recover [--json]\n"
            "\n"
            "Goes through the journals of what was bound: undoes transactions that a crash\n"
            "interrupted, and compares what is bound with what the journals say. 'bind' and\n"
            "'unbind' do the same before they begin. Exit status 1 when something is left\n"
            "that could not be undone: each line says what and why.\n"
            "\n"
            "  --json          print what was found as JSON\n",
    .run = run_recover,
};
