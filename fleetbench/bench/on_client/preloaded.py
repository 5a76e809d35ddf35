"""Import what `vllm bench serve` imports, once, and fork a child for each execution of it.

    python preloaded.py DIRECTORY EXECUTABLE IDLE_S LIFETIME_S

A transient unit on the client's host. It listens on DIRECTORY/socket from the start, runs the command line of
EXECUTABLE (the venv's `vllm`) up to its help text, which imports whatever that version needs, and then makes
the file DIRECTORY/ready. `handover.py` connects, is told `{"ready": true}` and sends its stdout and stderr
with the length of its request, then the request: argv, directory and environment as JSON. The answers are
lines: `{"started": true}` or `{"refused": why}`, and in the end `{"status": n}`.

It stays single-threaded: a fork copies one thread, and the locks that the others hold. Importing vLLM calls
cuInit(): its unit shows it no GPU, or it would hold them all, and keeps pyarrow's jemalloc from starting a
thread. A connection that is closed kills its child; so does the end of this process. It ends by itself after
IDLE_S seconds without a child, and takes no new one after LIFETIME_S.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import re
import runpy
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

ANSWER_S = 5.0
LARGEST = 1 << 20
LENGTH = struct.Struct("!Q")
PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
# Opened by CUDA and ROCm once they are initialised, not by asking NVML which GPUs there are.
GPU_DEVICES = {"/dev/nvidia-uvm", "/dev/kfd"}
# systemd and the shell set these anew for each unit; no_proxy is read when a connection is made.
OWN_TO_EACH = {
    *("INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "RUNTIME_DIRECTORY", "MEMORY_PRESSURE_WATCH"),
    *("MEMORY_PRESSURE_WRITE", "OLDPWD", "PWD", "SHLVL", "_", "no_proxy", "OPENBLAS_NUM_THREADS"),
    *("CUDA_VISIBLE_DEVICES", "JE_ARROW_MALLOC_CONF"),
}
# cuInit() starts this thread also where it is shown no GPU (driver 580). It sleeps until a GPU has news, and
# holds no lock that a client would take.
OF_THE_DRIVER = re.compile(r"cuda[0-9a-f]+")
# A unit's credential lies in a directory of its own, and libraries read its path when they are imported.
CREDENTIAL = ("CREDENTIALS_DIRECTORY", "HF_TOKEN_PATH")


class Refused(Exception):
    """This execution is better started in the plain way; the text says why."""


class Request(NamedTuple):
    """What one execution needs; `streams` are its stdout and stderr."""

    argv: list[str]
    directory: str
    environment: dict[str, str]
    streams: list[int]


def preload(executable: str) -> None:
    """Run the command line up to its help text: parser, benchmarks, tokenizers, whatever version it is."""
    sys.path[0] = str(Path(executable).parent)
    sys.argv = [executable, "bench", "serve", "--help"]
    try:
        runpy.run_path(executable, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    gc.collect()
    # What is still in a buffer would be in each child's, and come out where that child writes.
    sys.stdout.flush()
    sys.stderr.flush()
    LIBC.fflush(None)


def execute(request: Request, parent: int, own: Mapping[str, str]) -> None:
    """Be the command line of a request, as if it had been started just now. Called in a child."""
    os.setsid()  # a group of its own, to be killed as one
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, number in ((nothing, 0), (request.streams[0], 1), (request.streams[1], 2)):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request.directory)
    kept = {name: own[name] for name in CREDENTIAL if name in own}
    os.environ.clear()
    os.environ.update({**request.environment, **kept})
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # the standard library's generator does so by itself
    sys.argv = list(request.argv)
    runpy.run_path(sys.argv[0], run_name="__main__")


def unfit() -> str:
    """Return why this process may not be forked or may not stay; empty when it may."""
    tasks = [
        (task / "comm").read_text("utf-8", "replace").strip() for task in Path("/proc/self/task").iterdir()
    ]
    if len([name for name in tasks if not OF_THE_DRIVER.fullmatch(name)]) != 1:
        return f"it has threads: {' '.join(tasks)}"
    held = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists the directory is gone by now
            held.add(str(descriptor.readlink()))
    gpus = " ".join(sorted(GPU_DEVICES & held))
    return f"it holds {gpus}, and servers would wait for it to leave the GPU" if gpus else ""


def identity(executable: str) -> tuple[int, int]:
    """Return what changes when the venv is made anew in the same place."""
    found = Path(executable).stat()
    return found.st_ino, found.st_mtime_ns


def listen(directory: Path) -> socket.socket:
    """Return a listening socket; its name appears when it takes connections."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o077)
    listener.bind(str(directory / "socket.part"))
    os.umask(before)
    listener.listen(64)
    (directory / "socket.part").rename(directory / "socket")
    return listener


def refuse_others(connection: socket.socket) -> None:
    """Raise Refused unless the other end is our own user's."""
    _, user, _ = PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    if user != os.getuid():
        raise Refused("another user asks")


def tell(connection: socket.socket, answer: Mapping[str, object]) -> None:
    """Send one line."""
    connection.sendall(json.dumps(answer).encode() + b"\n")


def differing(mine: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Return the variables that two environments do not share and that a program may read on import."""
    names = {name for name, _ in mine.items() ^ theirs.items()} - OWN_TO_EACH
    return sorted(name for name in names if name not in CREDENTIAL or (name in mine) != (name in theirs))


def kill(pid: int) -> None:
    """Kill a child that has not been waited for, and everything in its group."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # it may not have made its group yet
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


class Preloaded:
    """The process that has imported everything, with a connection for each child by process id."""

    def __init__(self, executable: str, listener: socket.socket, idle_s: float, lifetime_s: float) -> None:
        self.executable = executable
        self.identity = identity(executable)
        self.environment = dict(os.environ)
        self.listener = listener
        self.idle_s = idle_s
        self.ends_at = time.monotonic() + lifetime_s
        self.children: dict[int, socket.socket] = {}
        self.selector = selectors.DefaultSelector()
        self.woken, self.wake = os.pipe()

    def serve(self) -> Request | None:
        """Fork a child for each request until it is time to end (None); in a child return its request."""
        for end in (self.woken, self.wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake, warn_on_full_buffer=False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.woken, selectors.EVENT_READ)
        busy_at = time.monotonic()
        while True:
            left = min(busy_at + self.idle_s, self.ends_at) - time.monotonic()
            if not self.children and left <= 0:
                return None
            for key, _ in self.selector.select(None if self.children else left):
                if key.fileobj is self.listener:
                    request = self._fork()
                    if request is not None:
                        return request
                elif key.fileobj == self.woken:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self.woken, 4096)
                else:  # the other end died, or says what it has no right to say
                    self.selector.unregister(key.fileobj)
                    for pid, connection in self.children.items():
                        if connection is key.fileobj:
                            kill(pid)
            self._reap()
            busy_at = time.monotonic() if self.children else busy_at

    def _fork(self) -> Request | None:
        """Take a connection and fork when all is well; only the child returns the request."""
        connection, _ = self.listener.accept()
        request = self._asked(connection)
        if request is None:
            connection.close()
            return None
        pid = os.fork()
        if pid:
            self._close(request.streams)
            self.children[pid] = connection
            self.selector.register(connection, selectors.EVENT_READ)
            return None
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.selector.close()
        for held in (self.listener, connection, *self.children.values()):
            held.close()
        self._close((self.woken, self.wake))
        return request

    @staticmethod
    def _close(descriptors: Iterable[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    def _asked(self, connection: socket.socket) -> Request | None:
        """Return what the other end wants executed, when it may and was told so."""
        connection.settimeout(ANSWER_S)
        streams: list[int] = []
        try:
            refuse_others(connection)
            tell(connection, {"ready": True})
            request = self._read(connection, streams)
            self._check(request)
            tell(connection, {"started": True})
        except Refused as why:
            with contextlib.suppress(OSError):
                tell(connection, {"refused": str(why)})
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, struct.error):
            pass  # it went away, or is none of ours: nobody is there to be told
        else:
            return request
        self._close(streams)
        return None

    def _read(self, connection: socket.socket, streams: list[int]) -> Request:
        """Read a request; its streams are in `streams` also when it cannot be read."""
        head, received, _, _ = socket.recv_fds(connection, LENGTH.size, 2)
        streams += received
        length = LENGTH.unpack(head)[0]
        if length > LARGEST or len(streams) != 2:
            raise Refused("the request is too long, or without its streams")
        with connection.makefile("rb") as rest:
            asked = json.loads(rest.read(length))
        argv = [str(word) for word in asked["argv"]]
        environment = {str(name): str(value) for name, value in asked["environment"].items()}
        return Request(argv, str(asked["directory"]), environment, streams)

    def _check(self, request: Request) -> None:
        """Raise Refused unless a child would be what the plain command is."""
        if time.monotonic() > self.ends_at:
            raise Refused("it is about to end")
        if request.argv[:1] != [self.executable]:
            raise Refused(f"it has imported {self.executable}")
        if identity(self.executable) != self.identity:
            raise Refused("the venv was made anew after the import")
        if names := differing(self.environment, request.environment):
            raise Refused(f"its environment differs: {' '.join(names)}")
        if why := unfit():
            raise Refused(why)

    def _reap(self) -> None:
        """Tell how each child ended that has ended, and kill what it left behind."""
        for pid in list(self.children):
            if not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                continue
            kill(pid)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            connection = self.children.pop(pid)
            with contextlib.suppress(OSError):
                tell(connection, {"status": code if code >= 0 else 128 - code})
            with contextlib.suppress(KeyError, ValueError):
                self.selector.unregister(connection)
            connection.close()


def main() -> None:
    """Import, serve, end; or, in a child, be one execution."""
    directory, executable = Path(sys.argv[1]), sys.argv[2]
    preloaded = Preloaded(executable, listen(directory), float(sys.argv[3]), float(sys.argv[4]))
    preload(executable)
    if why := unfit():
        sys.exit(f"not forked: {why}")
    (directory / "ready").touch()
    parent = os.getpid()
    request = preloaded.serve()
    if request is not None:
        execute(request, parent, preloaded.environment)


main()
