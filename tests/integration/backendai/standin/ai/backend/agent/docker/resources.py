# SPDX-License-Identifier: Apache-2.0
"""A stand-in for reading the resources of a container. Owns: the call. Never: reads a container."""


async def get_resource_spec_from_container(backend_obj):
    return backend_obj
