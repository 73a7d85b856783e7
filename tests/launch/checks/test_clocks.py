"""Two ends of one connection, each with a clock of its own."""

from __future__ import annotations

import socket
import time

import pytest

from launch.checks.clocks import ClockServer, ask_clock, offset_of


def test_half_the_way_there_and_back_is_the_answers_age() -> None:
    # asked at 100.0, answered 105.2 on the other clock, heard at 100.4: the middle is 100.2
    assert offset_of(100.0, 105.2, 100.4) == (pytest.approx(5.0), pytest.approx(0.2))


def test_a_clock_that_runs_ahead_is_seen_from_both_ends() -> None:
    with ClockServer(("127.0.0.1", 0), now=lambda: time.time() + 120) as server:
        found = ask_clock(("127.0.0.1", server.port), "node1", patience_s=5)
        server.wait(askers=1, patience_s=5)
    assert found.offset_s == pytest.approx(120, abs=1)
    (heard,) = server.heard
    assert heard.host == "node1"
    assert heard.offset_s == -found.offset_s


def test_the_truth_lies_within_the_error() -> None:
    with ClockServer(("127.0.0.1", 0)) as server:
        found = ask_clock(("127.0.0.1", server.port), "node1", patience_s=5)
    assert abs(found.offset_s) <= found.error_s + 1e-6  # both are this machine's clock


def test_a_server_of_ipv6_is_found() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with ClockServer(("::1", 0)) as server:
        assert ask_clock(("::1", server.port), "node1", patience_s=5).error_s >= 0


def test_nobody_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(OSError, match="refused"):
        ask_clock(("127.0.0.1", port), "node1", patience_s=0)


def test_a_stranger_on_the_port_does_no_harm() -> None:
    with ClockServer(("127.0.0.1", 0)) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            stranger.recv(1)
        assert ask_clock(("127.0.0.1", server.port), "node1", patience_s=5).host == "127.0.0.1"
    assert [offset.host for offset in server.heard] in ([], ["node1"])
