# SPDX-License-Identifier: Apache-2.0
"""Commands to a running QEMU over its monitor's socket.

Owns: one connection. Never: waits without a deadline.
"""
import json
import socket

DEADLINE_S = 30


class Qmp:
    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(DEADLINE_S)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rw", encoding="utf-8")
        self._events = []
        self._receive()
        self.command("qmp_capabilities")

    def close(self):
        self._lines.close()
        self._socket.close()

    def _receive(self):
        line = self._lines.readline()
        if not line:
            raise AssertionError("QEMU closed its monitor")
        return json.loads(line)

    def command(self, name, **arguments):
        """Runs a command; returns its result, or raises AssertionError if QEMU refuses it."""
        self._lines.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self._lines.flush()
        while True:
            answer = self._receive()
            if "event" in answer:
                self._events.append(answer)
            elif "error" in answer:
                raise AssertionError(f"{name} {arguments}: {answer['error']['desc']}")
            else:
                return answer["return"]

    def wait(self, event, **fields):
        """Waits until `event` is reported, with `fields` in its data."""
        while True:
            for seen in self._events:
                if seen["event"] == event and all(seen.get("data", {}).get(key) == value
                                                  for key, value in fields.items()):
                    self._events.remove(seen)
                    return seen
            answer = self._receive()
            if "event" in answer:
                self._events.append(answer)


def plug(driver, name, bus, **options):
    """An action that plugs a device in."""
    return lambda qmp: qmp.command("device_add", driver=driver, id=name, bus=bus, **options)


def unplug(name):
    """An action that asks the guest to release a device. The device is still there when the action returns."""
    return lambda qmp: qmp.command("device_del", id=name)


def wait_until_gone(name):
    """An action that waits until the guest has released a device."""
    return lambda qmp: qmp.wait("DEVICE_DELETED", device=name)
