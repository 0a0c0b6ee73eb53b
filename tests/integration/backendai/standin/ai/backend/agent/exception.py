# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the agent's errors. Owns: their classes and fields. Never: writes a message."""
from dataclasses import dataclass, field


class ResourceError(ValueError):
    pass


class UnsupportedResource(ResourceError):
    pass


class InvalidResourceCombination(ResourceError):
    pass


class InvalidResourceArgument(ResourceError):
    pass


class NotMultipleOfQuantum(InvalidResourceArgument):
    pass


@dataclass(eq=False)
class InsufficientResource(ResourceError):
    msg: str
    slot_name: str
    requested_alloc: object
    total_allocatable: object
    allocation: dict = field(default_factory=dict)
    context_tag: str | None = None


@dataclass(eq=False)
class FractionalResourceFragmented(ResourceError):  # unlike InsufficientResource, has no field for a message
    slot_name: str
    requested_alloc: object
    dev_allocs: object
    context_tag: str | None = None


class ResourceAllocationError(Exception):
    pass
