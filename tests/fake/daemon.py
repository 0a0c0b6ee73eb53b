#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for facetd that speaks docs/api.md and keeps its vGPUs in memory.

Owns: answers that are exact and the same in each run, and faults that the real daemon does not have (FAKE_FAULT).
Never: enforces a limit, is packaged, or replaces a test against the real daemon.

Usage: daemon.py [--private] [--ready-fd N]; the socket is $FACET_RUNTIME_DIR/facetd.sock.
FAKE_FAULT: refuse_start (exits after one line on the ready pipe), silent_start (exits without a line), not_json,
no_reason, hang_up (closes the connection instead of answering), die_on_delete (exits when a vGPU is deleted),
unused (no program ever entered its vGPUs), open_segment (all users may write the segments' folders, which are empty).
FAKE_ENVIRONMENT: the `environment` of every vGPU, as JSON. FAKE_ADDRESS: the address of the device in the segments.
FAKE_MISSING_MILLI: how far a vGPU's share is below its request for compute, in thousandths of the device (5).
FAKE_WAITED_NS: by how much each read of the list of vGPUs raises the time that their threads waited to launch (0).
The start of the daemon and each change of a vGPU are written as a line to $FACET_RUNTIME_DIR/fake.log.
"""
import argparse
import http.server
import json
import os
import re
import shutil
import socket
import socketserver
import struct
import sys
import threading
import urllib.parse

RUNTIME = os.environ["FACET_RUNTIME_DIR"]
FAULT = os.environ.get("FAKE_FAULT", "")
ADDRESS = os.environ.get("FAKE_ADDRESS", "opencl/Fake device")
MEMORY = 8 << 30
SEGMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "limiter", "segment.h")

DEVICES = [
    {"id": "opencl:0", "uuid": "uuid-zero", "name": "Fake device", "vendor": "Facet", "driver_version": "1",
     "provider": "opencl", "kind": "gpu", "health": "ok", "modes": ["shared", "soft"], "memory_bytes": MEMORY,
     "compute_units": 2, "simulated": False},
    {"id": "opencl:1", "uuid": "uuid-one", "name": "Device without memory size", "vendor": "Facet",
     "driver_version": "1", "provider": "opencl", "kind": "other", "health": "unknown", "modes": ["soft"],
     "simulated": False},
]


class Refusal(Exception):
    def __init__(self, status, code, argument, message, advice=""):
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": code, "argument": argument, "message": message, "advice": advice}}


def log(line):
    with open(os.path.join(RUNTIME, "fake.log"), "a", encoding="utf-8") as file:
        file.write(line + "\n")


def segment_version():
    with open(SEGMENT, encoding="utf-8") as file:
        return int(re.search(r"#define FACET_SEGMENT_VERSION +(\d+)u", file.read())[1])


def make_segment(folder):
    """Writes two files of a segment (src/limiter/segment.h), with the members that the command reads."""
    version = segment_version()
    os.makedirs(folder)
    if FAULT == "open_segment":
        os.chmod(folder, 0o777)
        return
    slots = 4096  # FACET_SEGMENT_SLOTS
    size = 128 + slots * (192 + 8 * 64)  # struct facet_usage: its header, and slots of 192 bytes and 8 shards
    usage = bytearray(size)
    struct.pack_into("<8sIIIIQ", usage, 0, b"FACUSAG0", version, size, slots, 1, 5 << 20)
    struct.pack_into("<QQQQ", usage, 128 + 64, 1500, 7, 250, 3)  # slot 0: busy_ns, launches, throttled_ns, denied
    if FAULT == "unused":
        struct.pack_into("<IQ", usage, 20, 0, 0)  # slots_used, memory_peak_bytes
    with open(os.path.join(folder, "usage"), "wb") as file:
        file.write(usage)
    policy = bytearray(832)  # struct facet_policy
    struct.pack_into("<8sII", policy, 0, b"FACPOLY0", version, len(policy))
    struct.pack_into("256s", policy, 336, ADDRESS.encode())  # device.address
    struct.pack_into("<Q", policy, 672, MEMORY)  # memory_limit_bytes
    with open(os.path.join(folder, "policy"), "wb") as file:
        file.write(policy)


class State:
    def __init__(self):
        self.vgpus = []
        self.made = 0

    def find(self, ref):
        for vgpu in self.vgpus:
            if ref in (vgpu["id"], vgpu["name"]):
                return vgpu
        raise Refusal(404, "not_found", "vgpu", f"vGPU '{ref}': not found", "list them with 'facet vgpu list'")

    def device(self, text):
        for index, device in enumerate(DEVICES):
            if text in (device["id"], device["uuid"], str(index)):
                return device
        raise Refusal(404, "not_found", "device", f"device '{text}': not found; there are opencl:0 and opencl:1")

    def check_memory(self, device, amount):
        total = device.get("memory_bytes", MEMORY)
        if amount > total:
            raise Refusal(400, "out_of_range", "memory_limit_bytes",
                          f"{amount >> 30} GiB is above the device's {total >> 30} GiB",
                          f"ask for at most {total >> 30} GiB")

    def create(self, request):
        device = self.device(request.get("device", "0"))
        memory = request.get("memory_limit_bytes", device.get("memory_bytes", MEMORY))
        self.check_memory(device, memory)
        name = request.get("name", f"vgpu-{self.made + 1}")
        if any(vgpu["name"] == name for vgpu in self.vgpus):
            raise Refusal(409, "already_exists", "name", f"name '{name}': already exists",
                          "choose another name or use the existing one")
        if request.get("mode", "soft") not in device["modes"]:
            raise Refusal(501, "unsupported", "mode", f"mode '{request['mode']}': the device offers shared and soft")
        self.made += 1
        number = f"{self.made:016x}"
        segment = os.path.join(RUNTIME, "vgpu", number)
        make_segment(segment)
        asked = request.get("compute_request_milli", 0)
        vgpu = {"id": number, "name": name, "device": device["id"], "device_name": device["name"],
                "mode": request.get("mode", "soft"), "priority": request.get("priority", "normal"), "state": "idle",
                "ephemeral": request.get("ephemeral", False), "memory_limit_bytes": memory, "memory_used_bytes": 12 << 20,
                "memory_peak_bytes": 20 << 20, "compute_request_milli": asked,
                "compute_limit_milli": request.get("compute_limit_milli", 1000), "device_time_ns": 12345678901,
                "launches": 100, "throttled_ns": 2000000000, "denied_allocations": 1, "processes": 2, "idle_frozen": False,
                "created_ns": 1700000000000000000, "segment": segment}
        if "FAKE_ENVIRONMENT" in os.environ:
            vgpu["environment"] = json.loads(os.environ["FAKE_ENVIRONMENT"])
        if asked:
            vgpu["share_milli"] = asked - int(os.environ.get("FAKE_MISSING_MILLI", "5"))
        if sum(other["compute_request_milli"] for other in self.vgpus) + asked > 1000:
            vgpu["warning"] = "guarantees on opencl:0 sum above the device; they act as weights"
        self.vgpus.append(vgpu)
        log("create " + json.dumps(request, sort_keys=True))
        return vgpu

    def change(self, ref, request):
        vgpu = self.find(ref)
        self.check_memory(self.device(vgpu["device"]), request.get("memory_limit_bytes", 0))
        vgpu.update(request)
        log(f"change {vgpu['name']} " + json.dumps(request, sort_keys=True))
        return vgpu

    def destroy(self, ref, force):
        vgpu = self.find(ref)
        if vgpu["name"] == "busy" and not force:
            raise Refusal(409, "busy", "vgpu", "vGPU 'busy': 1 process runs in it", "use --force")
        self.vgpus.remove(vgpu)
        shutil.rmtree(vgpu["segment"])
        log(f"destroy {vgpu['name']}")
        if FAULT == "die_on_delete":
            os._exit(0)
        return {}


STATE = State()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def route(self, method, path, query, body):
        parts = [urllib.parse.unquote(part) for part in path.split("/")[1:]]
        if parts == ["v1", "devices"]:
            return {"devices": DEVICES}
        if parts == ["v1", "vgpus"]:
            for vgpu in STATE.vgpus:
                vgpu["launches"] += 1000
                vgpu["throttled_ns"] += int(os.environ.get("FAKE_WAITED_NS", "0"))
            return STATE.create(body) if method == "POST" else {"vgpus": STATE.vgpus}
        if parts[:2] == ["v1", "vgpus"] and len(parts) == 3:
            if method == "PATCH":
                return STATE.change(parts[2], body)
            if method == "DELETE":
                return STATE.destroy(parts[2], query == "force=1")
            return STATE.find(parts[2])
        if parts[:2] == ["v1", "vgpus"] and len(parts) == 4 and parts[3] in ("freeze", "resume"):
            return STATE.change(parts[2], {"state": "frozen" if parts[3] == "freeze" else "idle"})
        raise Refusal(404, "not_found", "", f"no such path: {path}")

    def answer(self, method):
        url = urllib.parse.urlsplit(self.path)
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else {}
        status, kind = 200, "application/json"
        if FAULT == "hang_up":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        try:
            if url.path == "/metrics":
                text, kind = "# TYPE facet_up gauge\nfacet_up 1\n", "text/plain; version=0.0.4"
            else:
                text = json.dumps(self.route(method, url.path, url.query, body))
        except Refusal as refusal:
            status, text = refusal.status, json.dumps(refusal.body)
        if FAULT == "not_json":
            text = "what?"
        if FAULT == "no_reason":
            status, text = 500, "oops"
        data = text.encode()
        self.send_response(201 if method == "POST" and status == 200 else status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer("GET")

    def do_POST(self):
        self.answer("POST")

    def do_PATCH(self):
        self.answer("PATCH")

    def do_DELETE(self):
        self.answer("DELETE")

    def address_string(self):
        return "unix"


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    request_queue_size = 128  # as long as facetd's: callers of a stopped daemon wait in this queue
    daemon_threads = True

    def get_request(self):
        request, _ = super().get_request()
        return request, ("unix", 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--private", action="store_true")
    parser.add_argument("--ready-fd", type=int)
    options = parser.parse_args()
    os.makedirs(RUNTIME, mode=0o700, exist_ok=True)
    if FAULT == "refuse_start":
        os.write(options.ready_fd, b"the state folder '/nowhere' is not writable\n")
        sys.exit(1)
    if FAULT == "silent_start":
        sys.exit(0)
    path = os.path.join(RUNTIME, "facetd.sock")
    if os.path.exists(path):
        os.unlink(path)
    server = Server(path, Handler)
    with open(os.path.join(RUNTIME, "fake.pid"), "w", encoding="utf-8") as file:
        file.write(str(os.getpid()))
    log("start" + (" private" if options.private else ""))
    if options.ready_fd is not None:
        os.write(options.ready_fd, b"\n")
        os.close(options.ready_fd)
    # This process ends after two minutes even if the test does not end it.
    threading.Timer(120, lambda: os._exit(3)).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
