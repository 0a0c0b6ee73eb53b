# SPDX-License-Identifier: Apache-2.0
"""The lifecycle form of the interface (BEP-1016): pre_create, post_create, pre_terminate, post_terminate.

Owns: the vGPU of one workload. Never: remembers anything: its name comes from the workload's id, so a hook that is made
again after a restart finds it again.
"""
import asyncio
import hashlib

from . import interface
from . import library as lib
from .workload import Workload


class WorkloadDenied(Exception):
    """A permanent failure: creating it again fails again."""


class WorkloadDeferred(Exception):
    """A failure for now; `retry_s` is when to try again."""

    def __init__(self, reason, retry_s=1.0):
        super().__init__(reason)
        self.retry_s = retry_s


MARK = "w-"  # behind the prefix, so that only this module takes these back


def vgpu_name(prefix, workload_id):
    return prefix + MARK + hashlib.sha256(str(workload_id).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _raise_lifecycle_error(error):
    """By the ranges of facet/status.h: a wrong request, a refusal for now, or a defect. A daemon that is away, or does
    not answer, is a refusal for now."""
    if error.argument == "facetd" or -200 < error.status <= -100:
        raise WorkloadDeferred(error.message) from error
    if -100 < error.status < 0 or -400 < error.status <= -300:
        raise WorkloadDenied(error.message) from error
    raise error


class FacetLifecycleHook:
    def __init__(self, plugin, workload, grants):
        self._plugin, self._grants = plugin, grants
        self._name = vgpu_name(plugin._prefix, workload.id) if plugin.enforced(grants) else None

    def _create(self):
        if self._name:
            try:  # of an attempt that broke off; one with processes in it is in use
                self._plugin.daemon.delete(self._name)
            except lib.FacetError as error:
                if error.status != lib.NOT_FOUND or error.argument == "facetd":
                    raise
        with Workload() as workload:
            self._plugin.fill_workload(workload, self._grants, self._name)
            return workload.document()

    def _remove_vgpu(self):
        if self._name:
            self._plugin.remove_vgpu(self._name)

    async def pre_create(self):
        """Backend.AI's WorkloadConfig as a dict: mounts, env_vars, resource_data, networks, extra_gids, extra_syscalls.
        Members beyond these six (CDI, capabilities, ...) are in `document`, the whole in Facet's own form."""
        try:
            document = await self._plugin.complete(self._create, self._remove_vgpu)
        except lib.FacetError as error:
            _raise_lifecycle_error(error)
        except interface.ResourceAllocationError as error:
            raise WorkloadDenied(str(error)) from error
        if self._name:
            self._plugin._containers[self._name] = None
        mounts = [dict(mount) for mount in document.get("mounts", ())]
        mounts += [{"type": "device", **node} for node in document.get("device_nodes", ())]
        return {"mounts": mounts, "env_vars": document.get("environment", {}),
                "resource_data": document.get("resource_data", {}), "networks": document.get("networks", []),
                "extra_gids": self._plugin.get_additional_gids(), "extra_syscalls": document.get("system_calls", []),
                "document": document}

    async def post_create(self, container_id=None):
        if self._name:
            self._plugin._containers[self._name] = container_id

    async def pre_terminate(self):
        """A workload always ends, and nothing here has to be waited for."""

    async def post_terminate(self):
        """Takes the vGPU back. Again, or without one, is fine; one with a process in it is deferred."""
        if self._name is None:
            return
        try:
            await asyncio.to_thread(self._plugin.daemon.delete, self._name)
        except lib.FacetError as error:
            if error.status != lib.NOT_FOUND or error.argument == "facetd":
                _raise_lifecycle_error(error)
        self._plugin._containers.pop(self._name, None)
