"""The store: atomic, tolerant of damage, one frame a study, and the measurement CSV."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from configs.errors import ConfigError
from results.record import Record
from results.store import (
    find_record,
    read_measurements,
    read_study,
    write_json_atomically,
    write_record,
    write_tables,
)


def record(cell_id: str, **sections: object) -> Record:
    return Record("s", cell_id, "finetune", "ok", "2026-01-01T00:00:00+00:00", 1.0, 0.1, **sections)  # type: ignore[arg-type]


def test_a_written_record_is_found(tmp_path: Path) -> None:
    written = record("a", throughput={"tokens_per_s": 3.0})
    write_record(tmp_path, written)
    assert find_record(tmp_path, "a") == written


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_json_atomically(path, {"old": 1})
    with pytest.raises(TypeError):
        write_json_atomically(path, {"new": object()})
    assert json.loads(path.read_text()) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["record.json"]


def test_columns_are_flattened_with_dots(tmp_path: Path) -> None:
    write_record(tmp_path, record("a", throughput={"step_time_s": {"median": 0.5}}, parallel={"cards": 2}))
    frame = read_study(tmp_path)
    assert frame.loc[0, "throughput.step_time_s.median"] == 0.5
    assert frame.loc[0, "parallel.cards"] == 2


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe\x00", b"[]", b'{"schema_version": 7}'])
def test_a_damaged_record_is_warned_of_and_the_rest_is_read(tmp_path: Path, damage: bytes) -> None:
    write_record(tmp_path, record("good"))
    path = write_record(tmp_path, record("bad"))
    path.write_bytes(damage)
    with pytest.warns(UserWarning, match="damaged record skipped: .*bad"):
        frame = read_study(tmp_path)
    assert list(frame["cell_id"]) == ["good"]
    with pytest.warns(UserWarning, match="damaged record"):
        assert find_record(tmp_path, "bad") is None


def test_a_left_over_temporary_file_is_no_record(tmp_path: Path) -> None:
    path = write_record(tmp_path, record("a"))
    (path.parent / ".record.json.x1y2").write_text("{")
    assert len(read_study(tmp_path)) == 1


def test_a_study_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="study: .*nowhere does not exist"):
        read_study(tmp_path / "nowhere")


def test_the_tables_hold_every_row(tmp_path: Path) -> None:
    write_record(tmp_path, record("a", throughput={"step_times_s": [0.1, 0.2], "tokens_per_s": 3.0}))
    write_record(tmp_path, record("b"))
    csv, parquet = write_tables(tmp_path, read_study(tmp_path))
    assert list(pd.read_csv(csv)["cell_id"]) == ["a", "b"]
    assert list(pd.read_parquet(parquet)["throughput.step_times_s"].iloc[0]) == [0.1, 0.2]


def measurements(tmp_path: Path, text: str) -> pd.DataFrame:
    path = tmp_path / "m.csv"
    path.write_text(text, encoding="utf-8")
    return read_measurements(path)


def test_outside_rows_read_into_a_studys_columns(tmp_path: Path) -> None:
    frame = measurements(tmp_path, "mode,cards,tokens_per_s,peak_vram_gib\nddp,1,100,\nddp,2,190.5,30\n")
    assert list(frame["throughput.tokens_per_s"]) == [100.0, 190.5]
    assert list(frame["status"]) == ["imported", "imported"]
    assert frame["memory.device_used_gib"].isna().tolist() == [True, False]
    assert list(frame["throughput.tokens_per_s_per_card"]) == [100.0, 95.25]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mode,cards\nddp,1\n", "column tokens_per_s is missing; required: mode, cards, tokens_per_s"),
        ("mode,cards,tokens_per_s\nddp,two,5\n", "row 2: cards: 'two' is not a number"),
        ("mode,cards,tokens_per_s\nddp,1,5\nddp,2,-7\n", "row 3: tokens_per_s: '-7' is not a positive number"),
        ("mode,cards,tokens_per_s\nddp,1.5,5\n", "row 2: cards: '1.5' is not a whole number"),
        ("mode,cards,tokens_per_s\nddp,1,inf\n", "row 2: tokens_per_s: 'inf' is not a number"),
        ("mode,cards,tokens_per_s,status\nddp,1,5,great\n", "row 2: status: 'great' is unknown"),
        ("", "cannot be read as CSV"),
    ],
)
def test_a_wrong_cell_is_named_by_row_and_column(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        measurements(tmp_path, text)
    assert message in str(error.value)


def test_a_failed_row_may_lack_a_rate(tmp_path: Path) -> None:
    frame = measurements(tmp_path, "mode,cards,tokens_per_s,status\nddp,1,,oom\nddp,2,100,ok\n")
    assert list(frame["status"]) == ["oom", "imported"]


def test_unknown_columns_are_said_to_be_unused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="columns not used: colour"):
        measurements(tmp_path, "mode,cards,tokens_per_s,colour\nddp,1,5,red\n")
