/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table of reservations and their grants. Never: asks the daemon. */
#include "place.h"
#include "view.h"

static bool add_grants(struct libscols_table *table, const json_t *reservation)
{
    const json_t *grant;
    bool complete = true;
    size_t index;

    json_array_foreach (json_object_get(reservation, "grants"), index, grant) {
        complete = complete &&
                   view_row(table,
                            (const char *const[]){view_text(reservation, "name"),
                                                  view_has(reservation, "id") ? view_text(reservation, "id") : NULL,
                                                  view_text(grant, "slot"), view_text(grant, "device"),
                                                  view_text(grant, "amount"),
                                                  view_has(grant, "trouble")        ? view_text(grant, "trouble")
                                                  : view_text(reservation, "id")[0] ? "held"
                                                                                    : "planned"},
                            6);
    }
    return complete;
}

int place_print_table(const struct command *self, const json_t *reservations)
{
    static const struct view_column columns[] = {
        {"NAME", SCOLS_FL_TRUNC},  {"ID", 0}, {"SLOT", SCOLS_FL_TRUNC}, {"DEVICE", 0}, {"AMOUNT", SCOLS_FL_RIGHT},
        {"STATE", SCOLS_FL_TRUNC}, {NULL, 0},
    };
    VIEW_CLEANUP_TABLE struct libscols_table *table = view_table(columns);
    bool complete = table != NULL;
    const json_t *reservation;
    size_t index;

    json_array_foreach (reservations, index, reservation)
        complete = complete && add_grants(table, reservation);
    return complete && scols_print_table(table) == 0 ? EXIT_DONE : command_out_of_memory(self);
}
