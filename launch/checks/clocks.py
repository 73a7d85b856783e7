"""How far apart the clocks of two nodes are: a few short questions over one connection, as NTP asks them.

The one who asks notes when, the one who answers says what time it is; half the way there and back is the answer's age.
The quickest of several questions is the truest (RFC 5905, section 8).
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

ROUNDS = 5
SILENCE_S = 2.0  # what one side waits for the other's next line
LINE_BYTES = 256


@dataclass(frozen=True)
class Offset:
    """A peer's clock less ours. The truth lies within error_s of offset_s."""

    host: str
    offset_s: float
    error_s: float


def offset_of(sent: float, answered: float, received: float) -> tuple[float, float]:
    """(offset, error) of a clock that said `answered` to a question sent and received at these times of ours."""
    return answered - (sent + received) / 2, (received - sent) / 2


def ask_clock(
    address: tuple[str, int], own_name: str, patience_s: float, now: Callable[[], float] = time.time
) -> Offset:
    """The clock of who answers at `address`, asked as soon as it listens. Raises OSError when nobody does in time."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection = socket.create_connection(address, timeout=SILENCE_S)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    with connection, connection.makefile("rwb") as stream:
        answers = []
        for _ in range(ROUNDS):
            sent = now()
            stream.write(b"?\n")
            stream.flush()
            said = stream.readline(LINE_BYTES)
            answers.append(offset_of(sent, float(said or b"nan"), now()))
        offset, error = min(answers, key=lambda answer: answer[1])
        if offset != offset:
            raise ConnectionError("the clock was not told")
        stream.write(f"{own_name} {offset!r} {error!r}\n".encode())
        stream.flush()
        return Offset(f"{address[0]}", offset, error)


class ClockServer:
    """Answers `ask_clock` while it is entered; `heard` holds what the askers found out, seen from here."""

    def __init__(self, address: tuple[str, int], now: Callable[[], float] = time.time) -> None:
        """Raises OSError where `address` cannot be listened at."""
        family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
        self._listener = socket.create_server(address, family=family)
        self.port: int = self._listener.getsockname()[1]
        self.heard: list[Offset] = []
        self._now = now
        self._heard_one = threading.Condition()
        self._thread = threading.Thread(target=self._accept, name="clock server", daemon=True)

    def __enter__(self) -> ClockServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accept that waits on it
        self._listener.close()
        self._thread.join(SILENCE_S)

    def wait(self, askers: int, patience_s: float) -> None:
        """Return when `askers` have reported, or after `patience_s`."""
        with self._heard_one:
            self._heard_one.wait_for(lambda: len(self.heard) >= askers, timeout=patience_s)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(SILENCE_S)
        with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rwb") as stream:
            while line := stream.readline(LINE_BYTES):
                if line == b"?\n":
                    stream.write(f"{self._now()!r}\n".encode())
                    stream.flush()
                    continue
                name, offset, error = line.decode("utf-8", "replace").split()
                with self._heard_one:
                    self.heard.append(Offset(name, -float(offset), float(error)))
                    self._heard_one.notify_all()
                return
