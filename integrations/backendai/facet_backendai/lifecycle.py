# SPDX-License-Identifier: Apache-2.0
"""The lifecycle form of the interface (BEP-1016): pre_create, post_create, pre_terminate, post_terminate.

Owns: the vGPU of one workload. Never: stores which vGPU that is: its name is computed from the workload's id, so a new
hook finds the vGPU again after a restart of the agent.
"""
import asyncio
import hashlib

from . import interface
from . import library as lib
from .workload import Workload


class WorkloadDenied(Exception):
    """A permanent failure: a retry fails again."""


class WorkloadDeferred(Exception):
    """A temporary failure; `retry_s` is the time after which to retry."""

    def __init__(self, reason, retry_s=1.0):
        super().__init__(reason)
        self.retry_s = retry_s


LIFECYCLE_MARK = "w-"  # in a vGPU's name behind the prefix: only this module removes vGPUs with such names


def vgpu_name(prefix, workload_id):
    digest = hashlib.sha256(str(workload_id).encode("utf-8", "surrogateescape")).hexdigest()
    return prefix + LIFECYCLE_MARK + digest[:16]


def _raise_lifecycle_error(error):
    """Sorts an error by the ranges of facet/status.h: a wrong request is denied, a temporary refusal is deferred, and a
    defect is raised as it is. A daemon that is not running, or does not answer, counts as a temporary refusal."""
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
            try:  # the vGPU of an earlier attempt; the daemon refuses if it has processes
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
        `document` is the whole configuration in Facet's own form, with further members (CDI, capabilities, ...)."""
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
        """Does nothing: a workload may always end."""

    async def post_terminate(self):
        """Removes the vGPU, if there is one. WorkloadDeferred: a process is still in it."""
        if self._name is None:
            return
        try:
            await asyncio.to_thread(self._plugin.daemon.delete, self._name)
        except lib.FacetError as error:
            if error.status != lib.NOT_FOUND or error.argument == "facetd":
                _raise_lifecycle_error(error)
        self._plugin._containers.pop(self._name, None)
