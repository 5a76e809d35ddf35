"""Run a bench client, by handing it over to a process that has imported it already where that is possible.

    python handover.py DIRECTORY PROGRAM COMMAND [ARGUMENT …]

DIRECTORY is that of `preloaded.py`, whose protocol this speaks; empty: there is none. Whatever is not as
wanted there, COMMAND is simply executed, as if this program had not been. What measures is written into the
working directory first: program.json, with PROGRAM as the word for COMMAND itself. This process lives as long
as the execution does and ends with its status; when it is killed, so is the execution.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

CONNECT_S = 2.0
IMPORT_S = 300.0
ANSWER_S = 10.0
LOOK_S = 0.2
LENGTH = struct.Struct("!Q")
PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid
DIED = 75
NOT_FOUND = 127


class Unwilling(Exception):
    """The execution is not taken over; the text says why."""


def connect(directory: Path) -> socket.socket:
    """Return a connection to the preloaded process, which must be our own user's."""
    try:
        found = directory.lstat()
    except OSError:
        raise Unwilling("it is not running") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Unwilling(f"{directory} is not this user's alone")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    give_up = time.monotonic() + CONNECT_S
    while True:
        try:
            connection.connect(str(directory / "socket"))
            break
        except FileNotFoundError:  # started a moment ago, or over
            if time.monotonic() > give_up or not directory.exists():
                raise Unwilling("it does not listen") from None
            time.sleep(0.02)
    _, user, _ = PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    if user != os.getuid():
        raise Unwilling("its socket is another user's")
    return connection


def answer(connection: socket.socket, patient: Callable[[], bool] | None = None) -> dict[str, object]:
    """Return its next line; Unwilling when it ends, or when it does not answer and we are not `patient`."""
    connection.settimeout(LOOK_S if patient else None)
    line = b""
    while not line.endswith(b"\n"):
        try:
            part = connection.recv(1)
        except socket.timeout:  # noqa: UP041  TimeoutError only from Python 3.10 on
            if patient and not patient():
                raise Unwilling("it does not answer") from None
            continue
        if not part or len(line) > 10_000:
            raise Unwilling("it has ended")
        line += part
    found = json.loads(line)
    return found if isinstance(found, dict) else {}


def hand_over(directory: Path, command: list[str]) -> socket.socket:
    """Return the connection on which the end of the execution will be told; Unwilling: it was not begun."""
    connection = connect(directory)
    began = time.monotonic()
    ready_at: list[float] = []

    def importing() -> bool:
        """It would be imported here, too: waiting for an import loses nothing."""
        if not ready_at and (directory / "ready").exists():
            ready_at.append(time.monotonic())
        return time.monotonic() < (ready_at[0] + ANSWER_S if ready_at else began + IMPORT_S)

    if answer(connection, importing).get("ready") is not True:
        raise Unwilling("it does not speak as expected")
    request = {"argv": command, "directory": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109
    text = json.dumps(request).encode()
    connection.settimeout(ANSWER_S)
    socket.send_fds(connection, [LENGTH.pack(len(text))], [1, 2])
    connection.sendall(text)
    give_up = time.monotonic() + ANSWER_S
    told = answer(connection, lambda: time.monotonic() < give_up)
    if told.get("started") is not True:
        raise Unwilling(str(told.get("refused", "it does not speak as expected")))
    return connection


def note(program: str, why: str = "") -> None:
    """Write down what measures; a full disk is the client's to report."""
    with contextlib.suppress(OSError):
        part = Path("program.json.part")
        part.write_text(json.dumps({"program": program, "not_preloaded": why}), "utf-8")
        part.replace("program.json")


def main() -> None:
    """Hand over, or execute."""
    directory, program, *command = sys.argv[1:]
    why = ""
    if directory:
        try:
            connection = hand_over(Path(directory), command)
        except Unwilling as exc:
            why = str(exc)
        except (OSError, ValueError) as exc:
            why = f"{type(exc).__name__}: {exc}"
        else:
            note(f"{program}, preloaded")
            try:
                sys.exit(int(str(answer(connection).get("status", DIED))))
            except Unwilling:
                sys.stderr.write("fleetbench: the preloaded client was killed in the middle\n")
                sys.exit(DIED)
    note(program, why)
    try:
        os.execvp(command[0], command)  # noqa: S606  no shell: this is the point
    except OSError as exc:
        sys.stderr.write(f"fleetbench: {command[0]}: {exc.strerror}\n")
        sys.exit(NOT_FOUND)


main()
