"""Signals that ask the launcher to stop: raised where that is safe, held back where a record is being written."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # Ctrl-C; a scheduler's or spot machine's notice; a terminal that closed


class Stopped(KeyboardInterrupt):
    """The launcher was asked to stop, by the signal that the message names."""


class Interrupts:
    """While entered, a stopping signal raises Stopped inside `interruptible` only, and only once.

    Anywhere else it is kept until the next `interruptible` begins, so that no record is lost half-written. A second
    signal changes nothing: ending the ranks has a bound of its own.
    """

    def __init__(self) -> None:
        self.pending = ""
        self._open = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in _numbers()}
            self.install()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def install(self) -> None:
        """Take the signals (again): torch's elastic agent takes them for itself when it starts ranks."""
        if self._before:
            for number in _numbers():
                signal.signal(number, self._arrived)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Where a stopping signal may raise Stopped. Raises it at once if one came before."""
        self.check()
        self._open = True
        try:
            yield
        finally:
            self._open = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """A stretch inside `interruptible` that must not be cut; a signal in it is raised at its end."""
        was, self._open = self._open, False
        try:
            yield
        finally:
            self._open = was
        if was:
            self.check()

    def check(self) -> None:
        """Raise Stopped if a signal has come."""
        if self.pending:
            self._open = False
            raise Stopped(self.pending)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self.pending:
            return
        self.pending = signal.Signals(number).name
        if self._open:
            self._open = False
            raise Stopped(self.pending)


def _numbers() -> list[int]:
    return [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
