# SPDX-License-Identifier: Apache-2.0
"""Every request that must be refused: the answer's status and code, the member that it names, and that the request
changes nothing.

Owns: the refusals. Never: tests the daemon's own faults (test_faults.py).
"""
import json
import os
import shutil
import socket
import subprocess
import sys

from facetd import Facetd, UnixConnection
from tap import Skip, contains, equal, main, test

BODIES = [
    ("", 400, "invalid_argument", "body"),
    ("not json", 400, "invalid_argument", "body"),
    ("[]", 400, "invalid_argument", "body"),
    ('{"name":"a"} trailing', 400, "invalid_argument", "body"),
    ('{"name":"a","name":"b"}', 400, "invalid_argument", "body"),
    ('{"name":"\\ud800"}', 400, "invalid_argument", "body"),
    ('{"colour":"red"}', 400, "invalid_argument", "colour"),
    ('{"id":"0123456789abcdef"}', 400, "invalid_argument", "id"),
    ('{"name":1}', 400, "invalid_argument", "name"),
    ('{"name":"a b"}', 400, "invalid_argument", "name"),
    ('{"name":"' + "a" * 64 + '"}', 400, "invalid_argument", "name"),
    ('{"device":0}', 400, "invalid_argument", "device"),
    ('{"device":"test:7"}', 404, "not_found", "device"),
    ('{"memory_limit_bytes":"1G"}', 400, "invalid_argument", "memory_limit_bytes"),
    ('{"memory_limit_bytes":1e3}', 400, "invalid_argument", "memory_limit_bytes"),
    ('{"memory_limit_bytes":0}', 400, "out_of_range", "memory_limit_bytes"),
    ('{"memory_limit_bytes":-5}', 400, "out_of_range", "memory_limit_bytes"),
    ('{"memory_limit_bytes":1073741825}', 400, "out_of_range", "memory"),
    ('{"compute_request_milli":1300}', 400, "out_of_range", "compute_request_milli"),
    ('{"compute_limit_milli":0}', 400, "out_of_range", "compute_limit_milli"),
    ('{"compute_request_milli":500,"compute_limit_milli":200}', 400, "out_of_range", "compute"),
    ('{"mode":"firm"}', 400, "invalid_argument", "mode"),
    ('{"mode":"hard"}', 501, "unsupported", "mode"),
    ('{"mode":"partitioned"}', 501, "unsupported", "mode"),
    ('{"priority":2}', 400, "invalid_argument", "priority"),
    ('{"ephemeral":"yes"}', 400, "invalid_argument", "ephemeral"),
]


def check_refusal(answer, status, code, argument):
    equal(answer.status, status, answer.text)
    equal(answer.headers["Content-Type"], "application/json")
    equal(answer.error["code"], code)
    equal(answer.error.get("argument"), argument)
    equal(bool(answer.error["message"]) and bool(answer.error["advice"]), True, "message and advice")
    equal("\n" in answer.error["message"], False)


@test
def impossible_bodies_are_refused_and_create_nothing():
    with Facetd() as daemon:
        for body, status, code, argument in BODIES:
            check_refusal(daemon.call("POST", "/v1/vgpus", body), status, code, argument)
        equal(daemon.names(), [])
        equal(os.listdir(os.path.join(daemon.runtime, "vgpu")), [])


@test
def a_name_that_is_taken_is_refused():
    with Facetd() as daemon:
        vgpu = daemon.create(name="a")
        for name in ("a", vgpu["id"]):
            check_refusal(daemon.call("POST", "/v1/vgpus", {"name": name}), 409, "already_exists", "name")
        equal(daemon.names(), ["a"])


@test
def a_change_may_name_limits_only():
    with Facetd() as daemon:
        daemon.create(name="a", compute_request_milli=500)
        for member in ("name", "device", "mode", "ephemeral", "state"):
            check_refusal(daemon.call("PATCH", "/v1/vgpus/a", {member: "x"}), 400, "invalid_argument", member)
        check_refusal(daemon.call("PATCH", "/v1/vgpus/a", {"compute_limit_milli": 400}), 400, "out_of_range",
                      "compute")
        equal(daemon.get("/v1/vgpus/a").json["compute_limit_milli"], 1000)


@test
def freezing_takes_no_members():
    with Facetd() as daemon:
        daemon.create(name="a")
        check_refusal(daemon.call("POST", "/v1/vgpus/a/freeze", {"until": 5}), 400, "invalid_argument", "until")
        equal(daemon.get("/v1/vgpus/a").json["state"], "idle")


@test
def unknown_paths_and_names_are_not_found():
    with Facetd() as daemon:
        for method, path, argument in (
                ("GET", "/", "path"), ("GET", "/v2/health", "path"), ("GET", "/v1/vgpus/", "path"),
                ("GET", "/v1/vgpus/a/b/c", "path"), ("GET", "/v1/vgpus/nobody", "vgpu"),
                ("GET", "/v1/vgpus/" + "a" * 500, "vgpu"), ("PATCH", "/v1/vgpus/nobody", "vgpu"),
                ("DELETE", "/v1/vgpus/../../etc", "path"), ("POST", "/v1/vgpus/nobody/freeze", "vgpu")):
            body = "{}" if method in ("PATCH", "POST") else None
            check_refusal(daemon.call(method, path, body), 404, "not_found", argument)


@test
def a_wrong_method_is_answered_with_the_allowed_ones():
    with Facetd() as daemon:
        for method, path, allow in (("POST", "/v1/health", "GET"), ("DELETE", "/v1/vgpus", "GET, POST"),
                                    ("PUT", "/v1/vgpus/a", "GET, PATCH, DELETE"),
                                    ("GET", "/v1/vgpus/a/freeze", "POST")):
            answer = daemon.call(method, path)
            check_refusal(answer, 405, "invalid_argument", "method")
            equal(answer.headers["Allow"], allow)


@test
def unknown_arguments_after_the_path_are_refused():
    with Facetd() as daemon:
        daemon.create(name="a")
        check_refusal(daemon.call("DELETE", "/v1/vgpus/a?force=yes"), 400, "invalid_argument", "force")
        check_refusal(daemon.call("DELETE", "/v1/vgpus/a?farce=1"), 400, "invalid_argument", "farce")
        check_refusal(daemon.call("GET", "/v1/vgpus?force=1"), 400, "invalid_argument", "force")
        equal(daemon.names(), ["a"])


@test
def bodies_up_to_64_kib_are_read_and_larger_ones_refused():
    with Facetd() as daemon:
        fits = '{"name":"a"' + " " * (64 * 1024 - 12) + "}"
        equal(len(fits), 64 * 1024)
        equal(daemon.call("POST", "/v1/vgpus", fits).status, 201)
        check_refusal(daemon.call("POST", "/v1/vgpus", fits + " "), 413, "out_of_range", "body")
        equal(daemon.names(), ["a"])


@test
def huge_bodies_are_refused_by_their_length_alone():
    with Facetd() as daemon:
        for length in (1 << 30, 10 ** 18):
            answer = send_raw(daemon, f"POST /v1/vgpus HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n")
            contains(answer.split("\r\n")[0], "413")
        equal(daemon.get("/v1/health").status, 200)


@test
def bodies_without_a_length_are_refused():
    with Facetd() as daemon:
        chunks = (b" " * 8192 for _ in range(10))  # 80 KiB
        answer = daemon.call("POST", "/v1/vgpus", chunks)
        check_refusal(answer, 411, "invalid_argument", "body")
        endless = (b" " * 8192 for _ in range(1 << 12))  # 32 MiB: the daemon may close before it has read all of it
        try:
            equal(daemon.call("POST", "/v1/vgpus", endless).status, 411)
        except (BrokenPipeError, ConnectionResetError, ConnectionError):
            pass
        equal(daemon.get("/v1/health").status, 200)


def send_raw(daemon, text):
    """Sends the text as it is, and nothing more; returns all that comes back until the daemon closes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(30)
        connection.connect(daemon.socket)
        connection.sendall(text.encode("latin-1"))
        connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
        return b"".join(parts).decode()


POST = "POST /v1/vgpus HTTP/1.1\r\nHost: x\r\n"
GET = "GET /v1/vgpus HTTP/1.1\r\nHost: x\r\n"

# Ambiguous or malformed requests, and the refusal of each: status, code, argument.
MALFORMED = (
    (GET + "X: a\r\n" * 101 + "\r\n", 431, "out_of_range", "headers"),
    (GET + "X: a\r\n" * 900 + "\r\n", 431, "out_of_range", "headers"),
    (GET + "Cookie: " + "a=b;" * 500 + "\r\n\r\n", 400, "invalid_argument", "headers"),
    ("GET /v1/events?" + "a&" * 500 + " HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_argument", "path"),
    (POST + "Content-Length: -1\r\n\r\n", 400, "invalid_argument", "body"),
    (POST + "Content-Length: +2\r\n\r\n{}", 400, "invalid_argument", "body"),
    (POST + "Content-Length: 2x\r\n\r\n{}", 400, "invalid_argument", "body"),
    (POST + "Content-Length: 0x2\r\n\r\n{}", 400, "invalid_argument", "body"),
    (POST + "Content-Length:\r\n\r\n", 400, "invalid_argument", "body"),
    (POST + "Content-Length: 2, 2\r\n\r\n{}", 400, "invalid_argument", "body"),
    (POST + "Content-Length: 2 \r\n\r\n{}", 400, "invalid_argument", "body"),
    (POST + "content-length: 0\t\n\r\n", 400, "invalid_argument", "body"),
    (POST + "Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}abc", 400, "invalid_argument", "body"),
    (POST + "content-length: 5\r\nContent-Length: 2\r\n\r\n{}abc", 400, "invalid_argument", "body"),
    (POST + "Content-Length: 18446744073709551616\r\n\r\n", 413, "out_of_range", "body"),
    (POST + "Content-Length: 18446744073709551618\r\n\r\n{}", 413, "out_of_range", "body"),
    (POST + "Content-Length: 9" + "9" * 400 + "\r\n\r\n", 413, "out_of_range", "body"),
    (POST + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400, "invalid_argument", "body"),
    (POST + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 411, "invalid_argument", "body"),
    (POST + "Expect: more\r\nContent-Length: 2\r\n\r\n{}", 417, "invalid_argument", "headers"),
    ("GET /v1/vgpus%00/x HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_argument", "path"),
    ("GET /v1/vgpus\0/x HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_argument", "path"),
    ("DELETE /v1/vgpus/a?force=1%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_argument", "path"),
    ("DELETE /v1/vgpus/a?force=0&force=1 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_argument", "force"),
    ("DELETE /v1/vgpus/a?force=1&%66orce=1 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_argument", "force"),
    ("GET /v1/events?after=1&after=1 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_argument", "after"),
    ("GET /v1/reservations/a?render=oci&render=cdi HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_argument", "render"),
    ("GET /v1/vgpus/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_argument", "path"),
    ("GET v1/vgpus HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_argument", "path"),
    ("GET /v1/vgpus HTTP/2.0\r\nHost: x\r\n\r\n", 505, "invalid_argument", "request"),
    ("GET /v1/vgpus\r\n\r\n", 400, "invalid_argument", "request"),
    ("GE\1T /v1/vgpus HTTP/1.1\r\n\r\n", 400, "invalid_argument", "request"),
    ("hello\r\n\r\n", 400, "invalid_argument", "request"),
    ("GET /" + "a" * 9000 + " HTTP/1.1\r\nHost: x\r\n\r\n", 414, "out_of_range", "path"),
    ("G" * 40000, 414, "out_of_range", "path"),
    (GET + "A: " + "a" * 20000 + "\r\n\r\n", 431, "out_of_range", "headers"),
    (GET + "A: b\r\n" * 20000 + "\r\n", 431, "out_of_range", "headers"),
    ("\r\n" * 9000, 431, "out_of_range", "headers"),
    ("\n" * 20000 + GET + "\r\n", 431, "out_of_range", "headers"),
    ("POST /v1/vgpus/a%2Ffreeze HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_argument", "path"),
    ("GET /v1%2fhealth HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_argument", "path"),
    ("GET /v1/vgpus HTTP/1.1\r\n\r\n", 400, "invalid_argument", "headers"),
    (GET + "Host: y\r\n\r\n", 400, "invalid_argument", "headers"),
    (GET + "A : b\r\n\r\n", 400, "invalid_argument", "headers"),
    (GET + "A: b\r\n c\r\n\r\n", 400, "invalid_argument", "headers"),
    (GET + "A: b\0c\r\n\r\n", 400, "invalid_argument", "headers"),
    (GET + "a\r\n\r\n", 400, "invalid_argument", "headers"),
)


@test
def malformed_requests_are_refused_once_and_in_json():
    with Facetd() as daemon:
        daemon.create(name="a")
        for text, status, code, argument in MALFORMED:
            head, _, body = send_raw(daemon, text).partition("\r\n\r\n")
            lines = head.split("\r\n")
            equal(lines[0].split()[:2], ["HTTP/1.1", str(status)], f"the answer to {text[:100]!r}")
            names = [line.partition(":")[0].lower() for line in lines[1:]]
            equal(len(set(names)), len(names), f"each header once in {lines}")
            equal(dict(line.lower().split(": ", 1) for line in lines[1:])["content-type"], "application/json")
            error = json.loads(body)["error"]
            equal((error["code"], error["argument"]), (code, argument), f"the answer to {text[:100]!r}: {error}")
        equal(daemon.names(), ["a"])


@test
def heads_in_pieces_are_read():
    with Facetd() as daemon:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(daemon.socket)
            for byte in "\r\nGET /v1/vgpus HTTP/1.1\r\nHost: x\r\n\r\n":
                connection.sendall(byte.encode())
            connection.settimeout(30)
            contains(connection.recv(65536).decode(), "200 OK")


@test
def the_largest_heads_are_answered_in_json():
    """The HTTP library's memory is enough for heads of these sizes."""
    wide = "".join(f"X-{number}: {'y' * 70}\r\n" for number in range(98))
    long = "".join(f"X-{number}: {'y' * 750}\r\n" for number in range(19))
    many = "&".join(f"a{number}={'y' * 400}" for number in range(16))
    with Facetd() as daemon:
        for text, status in ((GET + "X: a\r\n" * 98 + "\r\n", 200), (GET + wide + "\r\n", 200), (GET + long + "\r\n", 200),
                             (f"GET /v1/events?{many} HTTP/1.1\r\nHost: x\r\n{wide}\r\n", 400)):
            head, _, body = send_raw(daemon, text).partition("\r\n\r\n")
            equal(head.split()[1], str(status), f"the answer to {text[:60]!r} of {len(text)} bytes: {head}")
            json.loads(body)


@test
def a_connection_serves_one_call():
    with Facetd() as daemon:
        answer = send_raw(daemon, GET + "\r\n" + POST + "Content-Length: -1\r\n\r\n")
        equal(answer.count("HTTP/1.1 "), 1, "answers")
        contains(answer, "Connection: close")


@test
def bytes_that_are_no_http_do_no_harm():
    with Facetd() as daemon:
        for text in ("\0\1\2\3\r\n\r\n", "GET\r\n\r\n", "G" * 100000, "GET / HTTP/9.9\r\n\r\n", "",
                     "GET /v1/health HTTP/1.1\r\n" + "X: y\r\n" * 20000 + "\r\n",
                     "POST /v1/vgpus HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n{}",
                     "POST /v1/vgpus HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{}"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.connect(daemon.socket)
                try:
                    connection.sendall(text.encode())
                except ConnectionError:  # the daemon closed before all of the text was sent
                    pass
        equal(daemon.get("/v1/health").status, 200)
        equal(daemon.names(), [])


@test
def a_slow_caller_does_not_hold_others_up():
    with Facetd() as daemon:
        slow = [UnixConnection(daemon.socket) for _ in range(20)]
        for connection in slow:
            connection.connect()
            connection.sock.sendall(b"POST /v1/vgpus HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        equal(daemon.get("/v1/health").status, 200)
        for connection in slow:
            connection.close()
        equal(daemon.names(), [])


CALL_AS_OTHER = """
import socket, sys
path, method, target, body = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(path)
    connection.sendall(f"{method} {target} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n"
                       f"Content-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
    print(connection.makefile().read())
"""


def call_as(user, daemon, method, path, body=""):
    result = subprocess.run(
        ["setpriv", "--reuid", str(user), "--clear-groups", sys.executable, "-c", CALL_AS_OTHER, daemon.socket, method,
         path, body], capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


def need_root_and_setpriv():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")


@test
def another_user_cannot_reach_the_socket():
    need_root_and_setpriv()
    with Facetd() as daemon:
        equal(os.stat(daemon.socket).st_mode & 0o777, 0o600)
        equal(os.stat(daemon.runtime).st_mode & 0o777, 0o700)
        contains(call_as(65534, daemon, "GET", "/v1/health"), "PermissionError")


@test
def a_connection_of_another_user_is_refused():
    need_root_and_setpriv()
    with Facetd() as daemon:
        os.chmod(daemon.base, 0o755)
        os.chmod(daemon.runtime, 0o755)
        os.chmod(daemon.socket, 0o666)
        for method, path, body in (("GET", "/v1/health", ""), ("POST", "/v1/vgpus", "{}"), ("GET", "/metrics", ""),
                                   ("GET", "/nowhere", "")):
            answer = call_as(65534, daemon, method, path, body)
            contains(answer, "403 ")
            contains(answer, '"permission"')
        equal(daemon.names(), [])


@test
def root_is_served_by_a_users_daemon():
    need_root_and_setpriv()
    with Facetd(start=False) as daemon:
        os.chown(daemon.base, 65534, 65534)
        daemon.start(prefix=["setpriv", "--reuid", "65534", "--clear-groups"])
        equal(daemon.get("/v1/health").status, 200)


main()
