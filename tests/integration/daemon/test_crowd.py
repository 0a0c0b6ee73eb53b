#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Many connections whose callers do nothing: they cost next to nothing, and other callers are served all the same."""
import contextlib
import os
import select
import socket
import time

from facetd import Facetd
from tap import equal, main, test

CROWD = 300  # connections: more than the daemon serves at once, fewer than it serves and keeps waiting together

HEAD = b"POST /v1/vgpus HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"


@contextlib.contextmanager
def crowd(daemon, count, data):
    """`count` connections, each of which sends `data` and nothing more."""
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.connect(daemon.socket)
            connection.sendall(data)
            connections.append(connection)
        yield connections


def are_open(connections):
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN)
    closed = {fd for fd, _ in poll.poll(0)}
    return [connection.fileno() not in closed for connection in connections]


def check_served_beside_crowd(data):
    with Facetd() as daemon, crowd(daemon, CROWD, data) as connections:
        equal(daemon.get("/v1/health").status, 200)
        opened = are_open(connections)
        # Most connections are still open, so the call was served before the daemon's time limit closed them all.
        equal(sum(opened) >= CROWD - 100, True, f"{sum(opened)} of {CROWD} are open")
        # The connections may have been accepted in a slightly different order, as each is taken by a thread of its own.
        equal(opened[100:], [True] * (CROWD - 100), "the daemon closed the connections that had waited longest")
        equal(daemon.names(), [])


@test
def callers_that_send_nothing_do_not_keep_others_from_being_served():
    check_served_beside_crowd(b"")


@test
def callers_that_send_half_a_head_do_not_keep_others_from_being_served():
    check_served_beside_crowd(HEAD)


@test
def callers_that_send_half_a_body_do_not_keep_others_from_being_served():
    check_served_beside_crowd(HEAD + b"\r\n{")


@test
def a_crowd_of_100_is_not_hung_up_on():
    with Facetd() as daemon, crowd(daemon, 100, HEAD) as connections:
        for _ in range(3):
            equal(daemon.get("/v1/health").status, 200)
        equal(are_open(connections), [True] * 100)
        for connection in connections:
            connection.sendall(b"\r\n" + b" " * 100)
            equal(connection.recv(12), b"HTTP/1.1 400")


def processor_ns(daemon):
    """The processor time of the daemon's threads, without threads that have ended."""
    total, tasks = 0, f"/proc/{daemon.process.pid}/task"
    for task in os.listdir(tasks):
        with contextlib.suppress(OSError), open(f"{tasks}/{task}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total


def crowd_cost_ns(data):
    """The processor time that a crowd costs the daemon in a second in which no connection sends anything."""
    with Facetd() as daemon, crowd(daemon, 100, data):
        daemon.get("/v1/health")
        time.sleep(0.3)
        before = processor_ns(daemon)
        time.sleep(1)
        return processor_ns(daemon) - before


@test
def an_endless_head_is_not_parsed_again_and_again():
    nothing, half = crowd_cost_ns(b""), crowd_cost_ns(HEAD + b"A: b\r\n" * 90)
    equal(half < 10 * nothing, True, f"{half} ns with half a head, {nothing} ns with nothing")


main()
