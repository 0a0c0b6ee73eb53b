/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: surviving a segment file that was truncated under the daemon's mapping.
 * Never: hides any other fault.
 */
#ifndef FACETD_BUS_ERROR_H
#define FACETD_BUS_ERROR_H

/*
 * Makes pages beyond the end of a truncated file read as zeros in this process, instead of ending it. The segment's
 * checks then find the damage (scheduler_view.damaged), and all other vGPUs go on. Call once, before threads start.
 */
void bus_error_survive(void);

#endif
