# SPDX-License-Identifier: Apache-2.0
"""Checks that only this user and root can change what a path leads to, and that one of them listens on a socket.

Owns: the rule, which is that of src/base/path_trust.c. Never: opens the path.
"""
import os
import stat
import struct
import socket

from .library import PERMISSION, FacetError

MAX_LINKS = 40


def _refuse(path, reason):
    raise FacetError(PERMISSION, "permission", "facetd", f"facetd is not asked: {path} {reason}")


def _check_component(path, status, last):
    if status.st_uid not in (0, os.geteuid()):
        _refuse(path, f"belongs to user {status.st_uid}, expected user {os.geteuid()} or root")
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode) or not mode & 0o022 or (not last and mode & stat.S_ISVTX):
        return
    _refuse(path, f"may be written by {'any user' if mode & 0o002 else 'others'} (mode {mode:04o})")


def check_folder(path):
    """Raises FileNotFoundError if a component of the path is missing, and FacetError, which names the component, if
    users other than this one and root can change it."""
    components, reached, links = os.path.abspath(path).split("/")[1:], "/", 0
    _check_component("/", os.lstat("/"), False)
    while components:
        name = components.pop(0)
        if name in ("", "."):
            continue
        path_so_far = os.path.dirname(reached) if name == ".." else os.path.join(reached, name)
        status = os.lstat(path_so_far)
        _check_component(path_so_far, status, not any(components))
        if not stat.S_ISLNK(status.st_mode):
            reached = path_so_far
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(f"{path}: more than {MAX_LINKS} symbolic links")
        target = os.readlink(path_so_far)
        reached = "/" if target.startswith("/") else reached
        components = target.split("/") + components


def check_peer(connection):
    """Refuses a connection whose listening process is neither this user's nor root's."""
    _, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user not in (0, os.geteuid()):
        _refuse("its socket", f"is of a process of user {user}, expected user {os.geteuid()} or root")
