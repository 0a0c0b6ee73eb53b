# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the monitors of VMs (QEMU's QMP and Cloud Hypervisor's API), and a machine with functions to attach.

Owns: sockets and threads, which end with them. Never: starts a VM.
"""
import http.server
import json
import os
import re
import socketserver
import threading

PORTS = ("rp1", "rp2")


def machine(place, **drivers):
    """The tree of a machine: bus 01 has a GPU and its audio function, bus 02 another GPU, bus 03 a disk."""
    # Each function has a class, and BARs as the file "resource" lists them: first address, last address, flags.
    functions = {"0000:01:00.0": ("0x030000", [(0x90000000, 0x90ffffff, 0x40200), (0x38000000000, 0x387ffffffff, 0x14220c)]),
                 "0000:01:00.1": ("0x040300", [(0x91000000, 0x91003fff, 0x40200)]),
                 "0000:02:00.0": ("0x030200", [(0x38800000000, 0x388ffffffff, 0x14220c)]),
                 "0000:03:00.0": ("0x010802", [(0x92000000, 0x92003fff, 0x140204)])}
    for number, (address, (kind, bars)) in enumerate(functions.items()):
        bars += [(0, 0, 0)] * (7 - len(bars))
        folder = os.path.join(place.root, "host/sys/bus/pci/devices", address)
        os.makedirs(folder)
        for name, text in (("vendor", "0x10de"), ("device", "0x2684"), ("class", kind), ("revision", "0xa1"),
                           ("resource", "\n".join(f"{a:#018x} {b:#018x} {c:#018x}" for a, b, c in bars))):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text + "\n")
        driver = drivers.get(address.replace(":", "_").replace(".", "_"), "vfio-pci")
        if driver:
            os.symlink(f"../../../../bus/pci/drivers/{driver}", os.path.join(folder, "driver"))
        os.symlink(f"../../../../kernel/iommu_groups/{10 + number}", os.path.join(folder, "iommu_group"))
    os.makedirs(os.path.join(place.root, "host/proc/1/fd"))
    return os.path.join(place.root, "host")


class Served:
    """A server on a Unix socket, in a thread of its own."""

    def __init__(self, path, handler):
        self.path = path
        self.server = socketserver.ThreadingUnixStreamServer(path, handler)
        self.server.daemon_threads = True
        self.server.model = self
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

        # A client that has read enough closes the connection, which is no error.
        self.server.handle_error = lambda request, address: None

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        os.unlink(self.path)


class _Monitor(socketserver.StreamRequestHandler):
    def say(self, message):
        self.wfile.write(json.dumps(message).encode() + b"\r\n")

    def handle(self):
        model = self.server.model
        self.say({"QMP": {"version": {"qemu": {"major": model.version[0], "minor": model.version[1], "micro": 0},
                                      "package": ""}, "capabilities": []}})
        for line in self.rfile:
            command = json.loads(line)
            model.log.append((command["execute"], command.get("arguments", {})))
            answer, events = model.answer(command["execute"], command.get("arguments", {}))
            self.say({**answer, "id": command["id"]})
            for event in events:
                self.say(event)


class Qemu(Served):
    """A running QEMU with two root ports. It refuses the command `refuse`; a `stubborn` guest gives up no device."""

    def __init__(self, path, version=(9, 1), refuse=None, stubborn=False):
        super().__init__(path, _Monitor)
        self.version, self.refuse, self.stubborn = version, refuse, stubborn
        self.log, self.devices = [], {}

    def objects(self, path):
        if path == "/machine/peripheral":
            return [{"name": port, "type": "child<pcie-root-port>"} for port in PORTS] + [
                {"name": name, "type": "child<vfio-pci>"} for name in self.devices]
        bus = path.rsplit("/", 1)[1]
        return [{"name": f"child[{number}]", "type": "link<vfio-pci>"}
                for number, device in enumerate(self.devices.values()) if device["bus"] == bus]

    def property(self, path, name):
        child = re.fullmatch(r"child\[(\d+)\]", name)
        if name == "hotplug":
            return True
        if child:
            return "/machine/peripheral/" + list(self.devices)[int(child[1])]
        device = self.devices[path.rsplit("/", 1)[1]]
        return {"parent_bus": "/machine/peripheral/{0}/{0}".format(device["bus"]), "host": device.get("host"),
                "addr": int(device["addr"][-1])}[name]

    def answer(self, command, arguments):
        if command == self.refuse:
            return {"error": {"class": "GenericError", "desc": "not today"}}, []
        if command == "qom-list":
            return {"return": self.objects(arguments["path"])}, []
        if command == "qom-get":
            return {"return": self.property(arguments["path"], arguments["property"])}, []
        if command == "query-status":
            return {"return": {"status": "running"}}, []
        if command == "query-pci":
            return {"return": [{"devices": [{"qdev_id": name, "regions": [{"address": 4096}]}
                                            for name in self.devices]}]}, []
        if command == "device_add":
            self.devices[arguments["id"]] = arguments
        if command == "device_del" and not self.stubborn:
            gone = self.devices[arguments["id"]]["bus"]
            names = [name for name, device in self.devices.items() if device["bus"] == gone]
            self.devices = {name: device for name, device in self.devices.items() if name not in names}
            return {"return": {}}, [{"event": "DEVICE_DELETED", "data": {"device": name}} for name in names]
        return {"return": {}}, []


class _Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, answer = self.server.model.answer(self.path, json.loads(body) if body else None)
        data = b"" if answer is None else answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        if data or status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if data:
            self.wfile.write(data)

    do_GET = do_PUT = reply

    def address_string(self):
        return "unix"


class CloudHypervisor(Served):
    """A running Cloud Hypervisor. It refuses the change with number `refuse` (the first is 1), and goes on listing a
    removed device in the next `slow` queries; `info` replaces its answer about the VM."""

    def __init__(self, path, refuse=None, slow=2, info=None):
        super().__init__(path, _Api)
        self.refuse, self.slow, self.info = refuse, slow, info
        self.log, self.devices, self.leaving, self.changes = [], {}, {}, 0

    def tree(self):
        for name in list(self.leaving):
            self.leaving[name] -= 1
            if self.leaving[name] < 0:
                self.leaving.pop(name)
                self.devices.pop(name)
        return {name: {"id": name} for name in self.devices}

    def answer(self, path, body):
        self.log.append((path, body))
        if path == "/api/v1/vm.info":
            return 200, self.info if self.info is not None else {
                "state": "Running", "device_tree": self.tree(), "config": {"devices": list(self.devices.values())}}
        self.changes += 1
        if self.changes == self.refuse:
            return 500, ["Error from API", "The VM could not do it"]
        if path == "/api/v1/vm.add-device":
            self.devices[body["id"]] = body
            return 200, {"id": body["id"], "bdf": "0000:00:06.0"}
        if path == "/api/v1/vm.remove-device" and body["id"] in self.devices:
            self.leaving[body["id"]] = self.slow
            return 204, None
        return 404, ["no such device"]
