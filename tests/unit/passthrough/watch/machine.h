/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a made-up machine of a few PCI functions below a directory of its own. Never: touches the host's. */
#ifndef FACET_TEST_WATCH_MACHINE_H
#define FACET_TEST_WATCH_MACHINE_H

struct machine {
    char path[64];
    int root; /* a descriptor of it */
};

void machine_create(struct machine *machine);
void machine_destroy(struct machine *machine);

/* A function with an identity, D0, a link, AER counters of zero, and no driver. */
void machine_plug(const struct machine *machine, const char *address);
void machine_unplug(const struct machine *machine, const char *address);

/* An attribute's new text, or a link's new end; NULL removes it. */
void machine_write(const struct machine *machine, const char *address, const char *name, const char *text);
void machine_link(const struct machine *machine, const char *address, const char *name, const char *target);

#endif
