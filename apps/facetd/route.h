/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which endpoint a method and a path lead to.
 *
 * Owns: the table of routes.
 * Never: calls an endpoint.
 */
#ifndef FACETD_ROUTE_H
#define FACETD_ROUTE_H

#include "endpoint.h"

struct route_match {
    endpoint_func endpoint;        /* NULL when nothing is there, or not with this method */
    char ref[FACET_NAME_SIZE + 1]; /* longer than any name, so that one that is cut names nothing */
    const char *allow;             /* the methods that the path has; NULL when there is no such path */
};

void route_find(const char *method, const char *path, struct route_match *ret_match);

#endif
