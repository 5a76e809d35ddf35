"""A loopback port of the controller that leads to an address as a host sees it.

Fabric's `forward_local` begins to listen in a thread of its own some time after it returns, and one refused
connection ends it; here the port listens before it is handed out, and each connection stands for itself.
"""

from __future__ import annotations

import contextlib
import select
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import Protocol


class Channel(Protocol):
    """The part of an SSH channel that a tunnel needs."""

    def fileno(self) -> int:
        """For select."""
        ...

    def recv(self, nbytes: int) -> bytes:
        """Up to `nbytes`, empty at the end."""
        ...

    def sendall(self, s: bytes) -> None:
        """All of it."""
        ...

    def close(self) -> None:
        """End the channel."""
        ...


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@contextlib.contextmanager
def tunnel(open_channel: Callable[[], Channel]) -> Iterator[int]:
    """Listen on a free loopback port; each connection gets a channel of its own."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                channel = open_channel()
            except Exception:  # refused or lost: the client sees its connection end
                return
            with contextlib.suppress(OSError, EOFError):
                _carry(self.request, channel)
            channel.close()

    with _Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def _carry(client: socket.socket, channel: Channel) -> None:
    while True:
        readable, _, _ = select.select([client, channel], [], [])
        if client in readable:
            data = client.recv(65536)
            if not data:
                return
            channel.sendall(data)
        if channel in readable:
            data = channel.recv(65536)
            if not data:
                return
            client.sendall(data)
