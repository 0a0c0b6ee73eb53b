/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The endpoint for a method and a path.
 *
 * Owns: the table of routes.
 * Never: calls an endpoint.
 */
#ifndef FACETD_ROUTE_H
#define FACETD_ROUTE_H

#include "endpoint.h"

struct route_match {
    endpoint_func endpoint;        /* NULL when the path is unknown, or lacks this method */
    char ref[FACET_NAME_SIZE + 1]; /* longer than any name, so that a name that was cut matches none */
    const char *allow;             /* the methods that the path has; NULL when there is no such path */
};

void route_find(const char *method, const char *path, struct route_match *ret_match);

#endif
