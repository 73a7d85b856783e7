"""What the host is asked, on this host."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from configs.errors import ConfigError
from configs.schema import Model
from launch.checks.clocks import Offset
from launch.checks.facts import PeerFacts
from launch.checks.probe_host import bounded, model_error, parse_endpoint, port_busy, reach, results_folder, with_clocks


def test_a_folder_that_is_not_there_yet_is_judged_by_the_nearest_above_it(tmp_path: Path) -> None:
    error, free, filesystem = results_folder(tmp_path / "a" / "b")
    assert error == ""
    assert free is not None and free > 0
    assert filesystem
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    assert results_folder(tmp_path / "a" / "b")[0] == f"{tmp_path}/a is not a folder"


def test_a_folder_that_cannot_be_written_is_told() -> None:
    folder = Path("/proc/self")  # not even root writes there
    if not folder.exists():
        pytest.skip("no /proc here")
    assert results_folder(folder)[0] in (os.strerror(errno.ENOENT), os.strerror(errno.EACCES), os.strerror(errno.EPERM))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node0:29500", ("node0", 29500)),
        ("node0", ("node0", 29400)),
        ("[fd00::2]:29500", ("fd00::2", 29500)),
        ("10.0.0.5:1", ("10.0.0.5", 1)),
        (None, None),
    ],
)
def test_endpoints_are_read(text: str | None, expected: tuple[str, int] | None) -> None:
    assert parse_endpoint(text) == expected


@pytest.mark.parametrize("text", ["fd00::2:29500", "node0:port", "node0:70000"])
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"host:port, or \[address\]:port for IPv6"):
        parse_endpoint(text)


def test_a_port_somebody_listens_on_is_busy_and_a_closed_one_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = ("127.0.0.1", taken.getsockname()[1])
        assert port_busy(endpoint) is True
    assert port_busy(endpoint) is False


def test_a_port_of_another_machine_is_not_ours_to_judge() -> None:
    assert port_busy(("198.51.100.7", 29400)) is None  # an address of documentation: nobody's, RFC 5737


def test_a_host_where_nobody_listens_answers_all_the_same() -> None:
    peer = reach("127.0.0.1")
    assert (peer.error, peer.addresses) == ("", ("127.0.0.1",))


def test_a_name_that_nobody_has_is_told() -> None:
    assert reach("leader.invalid").error.startswith("does not resolve: ")


def test_a_call_that_takes_too_long_is_given_up() -> None:
    assert bounded(lambda: threading.Event().wait(30), 0.05) is None


def test_a_call_that_is_in_time_is_answered() -> None:
    assert bounded(lambda: 7, 5) == 7


def test_clocks_are_put_beside_the_hosts_they_belong_to() -> None:
    merged = with_clocks(
        [PeerFacts("a", ("10.0.0.1",)), PeerFacts("b")], [Offset("a", 0.5, 0.1), Offset("c", 1.0, 0.2)]
    )
    assert [(peer.host, peer.clock_offset_s) for peer in merged] == [("a", 0.5), ("b", None), ("c", 1.0)]


def test_a_model_without_weights_is_told_where_they_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert model_error(Model(path=str(tmp_path))) == ""
    assert "model.safetensors" in model_error(Model(path=str(tmp_path), init="pretrained"))


def test_a_model_folder_that_is_empty_is_told(tmp_path: Path) -> None:
    assert "has no config.json" in model_error(Model(path=str(tmp_path)))
