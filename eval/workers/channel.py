"""The connection between parent and worker: a pair of sockets that preserve message boundaries and pass descriptors.

Parent to worker: {"request": name, ...} or {"request": "end"}, and in a round the word to begin (eval/timing), with a
descriptor if host memory is lent. Worker to parent: {kind: content}, which answers.py parses.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

from eval.workers.answers import MESSAGE_BYTES

SEND_S = 5.0  # a worker that takes no message for this long has stopped


class Silence(TimeoutError):
    """No message arrived in time."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Channel:
    """One end of the connection."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)

    def fileno(self) -> int:
        """The descriptor."""
        return self._socket.fileno()

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Sends a message with descriptors. Raises OSError if the other end is closed or does not read."""
        self.send_bytes(json.dumps(message).encode(), descriptors)

    def send_bytes(self, raw: bytes, descriptors: Sequence[int] = ()) -> None:
        """Sends bytes as one message. Raises OSError if the other end is closed or does not read."""
        self._socket.settimeout(SEND_S)
        try:
            socket.send_fds(self._socket, [raw], list(descriptors))
        finally:
            self._socket.settimeout(None)

    def receive(self, deadline: float | None = None) -> bytes:
        """The next message. Raises Silence at the deadline (of time.monotonic), EOFError if the other end is closed."""
        if deadline is not None:
            left = max(0.0, deadline - time.monotonic())
            if not self._poll.poll(left * 1e3):
                raise Silence
        try:
            raw = self._socket.recv(MESSAGE_BYTES + 1)
        except ConnectionError:
            raw = b""
        if not raw:
            raise EOFError
        return raw

    def receive_with_descriptors(self, count: int) -> tuple[bytes, list[int]]:
        """The next message with up to `count` descriptors. Raises EOFError."""
        raw, descriptors, _, _ = socket.recv_fds(self._socket, MESSAGE_BYTES, count)
        if not raw:
            raise EOFError
        return raw, descriptors

    def close(self) -> None:
        """Closes this end."""
        self._socket.close()
