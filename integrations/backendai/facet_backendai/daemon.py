# SPDX-License-Identifier: Apache-2.0
"""Calls to facetd over its socket: vGPUs and readings (docs/api.md).

Owns: a connection of its own for each call, and errors as FacetError. Never: starts the daemon. Never: calls a daemon
that another user runs (root may), or whose socket is in a folder that other users can change.
"""
import http.client
import json
import os
import re
import socket
from decimal import Decimal, InvalidOperation
from urllib.parse import quote

from .library import IO, NOT_FOUND, FacetError, load
from .trust import check_folder, check_peer

TIMEOUT_S = 10
_LINE = re.compile(r"^(facet_[a-z0-9_]+)\{(.*)\} (\S+)$")
_LABEL = re.compile(r'([a-z0-9_]+)="((?:[^"\\]|\\.)*)"')


def _labels(text):
    return {name: re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], value)
            for name, value in _LABEL.findall(text)}


def socket_path():
    """The path of the daemon's socket, by the rules of src/base/paths.h."""
    runtime = os.environ.get("FACET_RUNTIME_DIR")
    if not runtime and os.geteuid() == 0:
        runtime = "/run/facet"
    elif not runtime:
        base = os.environ.get("XDG_RUNTIME_DIR")
        runtime = os.path.join(base, "facet") if base else f"/tmp/facet-{os.getuid()}"
    return os.path.join(runtime, "facetd.sock")


class _Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.sock.settimeout(self.timeout)
        check_folder(os.path.dirname(self._path))
        self.sock.connect(self._path)
        check_peer(self.sock)


class Daemon:
    """Every method opens a connection of its own, so any thread may call it."""

    def __init__(self, path=None):
        self.path = path or socket_path()

    def _ask(self, method, target, body=None):
        connection = _Connection(self.path)
        try:
            connection.request(method, target, None if body is None else json.dumps(body),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise FacetError(NOT_FOUND, "not_found", "facetd", f"no facetd answers on {self.path}: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            raise FacetError(IO, "io", "facetd", f"facetd on {self.path}: {error}") from error
        finally:
            connection.close()

    def call(self, method, target, body=None):
        status, raw = self._ask(method, target, body)
        try:
            answer = json.loads(raw)
            if status < 400:
                return answer
            refusal = answer["error"]
            code = str(refusal["code"])
        except (ValueError, KeyError, TypeError) as error:
            raise FacetError(IO, "io", "facetd", f"facetd on {self.path}: expected JSON as in docs/api.md") from error
        raise FacetError(load().status_from_name(code.encode()), code, refusal.get("argument", ""),
                         refusal.get("message", ""))

    def create(self, name, device, memory_bytes, request_milli, limit_milli, mode="soft"):
        body = {"name": name, "device": device, "mode": mode, "memory_limit_bytes": memory_bytes}
        body.update({"compute_request_milli": request_milli, "compute_limit_milli": limit_milli})
        return self.call("POST", "/v1/vgpus", {key: value for key, value in body.items() if value is not None})

    def get(self, name):
        return self.call("GET", "/v1/vgpus/" + quote(name, safe=""))

    def list(self):
        return self.call("GET", "/v1/vgpus")["vgpus"]

    def delete(self, name, force=False):
        return self.call("DELETE", "/v1/vgpus/" + quote(name, safe="") + ("?force=1" if force else ""))

    def readings(self):
        """(metric, labels, Decimal) of each measured value; a value that was not measured is absent."""
        status, raw = self._ask("GET", "/metrics")
        found = []
        for line in raw.decode(errors="replace").splitlines() if status == 200 else ():
            match = _LINE.match(line)
            try:
                value = Decimal(match[3]) if match else None
            except InvalidOperation:
                continue
            if value is not None and value.is_finite():
                found.append((match[1], _labels(match[2]), value))
        return found
