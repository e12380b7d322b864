"""The line between parent and worker: a pair of sockets that keep messages apart and pass descriptors.

Parent to worker: {"request": name, ...} or {"request": "end"}, and in a round the word to begin (eval/timing), which
comes with a descriptor where memory is lent. Worker to parent: {kind: content}; eval/answers takes them apart.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

from eval.workers.answers import MESSAGE_BYTES

SEND_S = 5.0  # a worker that does not take a message within this time does not run


class Silence(TimeoutError):
    """No message came in time."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Channel:
    """One end of the line."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)

    def fileno(self) -> int:
        """The descriptor."""
        return self._socket.fileno()

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Sends a message; descriptors travel with it. Raises OSError if the other end is gone or full."""
        self.send_bytes(json.dumps(message).encode(), descriptors)

    def send_bytes(self, raw: bytes, descriptors: Sequence[int] = ()) -> None:
        """Sends bytes as one message. Raises OSError if the other end is gone or full."""
        self._socket.settimeout(SEND_S)
        try:
            socket.send_fds(self._socket, [raw], list(descriptors))
        finally:
            self._socket.settimeout(None)

    def receive(self, deadline: float | None = None) -> bytes:
        """The next message. Raises Silence at the deadline (of time.monotonic) and EOFError on a line that is cut."""
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
        """The next message and up to `count` descriptors that came with it. Raises EOFError."""
        raw, descriptors, _, _ = socket.recv_fds(self._socket, MESSAGE_BYTES, count)
        if not raw:
            raise EOFError
        return raw, descriptors

    def close(self) -> None:
        """Ends the line."""
        self._socket.close()
