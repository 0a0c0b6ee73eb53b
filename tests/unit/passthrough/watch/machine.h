/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a made-up machine of a few PCI functions below a directory of its own. Never: touches the host's. */
#ifndef FACET_TEST_WATCH_MACHINE_H
#define FACET_TEST_WATCH_MACHINE_H

struct machine {
    char path[64];
    int root; /* a descriptor of the directory */
};

void machine_create(struct machine *machine);
void machine_destroy(struct machine *machine);

/* Adds a function with an identity, in D0, with a link, AER counters of 0, and no driver. */
void machine_plug(const struct machine *machine, const char *address);
void machine_unplug(const struct machine *machine, const char *address);

/* Sets the text of an attribute, or the target of a link; NULL removes it. */
void machine_write(const struct machine *machine, const char *address, const char *name, const char *text);
void machine_link(const struct machine *machine, const char *address, const char *name, const char *target);

#endif
