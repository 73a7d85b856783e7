"""The record's contract."""

from __future__ import annotations

import json

import pytest

from results.record import Error, Record, RecordError, from_json, to_json


def sample(**changes: object) -> Record:
    fields: dict[str, object] = {
        "study": "s",
        "cell_id": "tiny-ddp-1-abc",
        "benchmark": "finetune",
        "status": "ok",
        "started_at": "2026-01-01T00:00:00+00:00",
        "wall_s": 1.5,
        "card_hours": 0.1,
    }
    return Record(**(fields | changes))  # type: ignore[arg-type]


def test_a_record_survives_json() -> None:
    record = sample(error=Error("ValueError", "no", rank=3), throughput={"tokens_per_s": 5.0})
    assert from_json(json.loads(json.dumps(to_json(record)))) == record


def test_nan_and_infinity_become_null() -> None:
    data = to_json(sample(throughput={"mfu": float("nan"), "list": [float("inf"), 1.0]}))
    assert data["throughput"] == {"mfu": None, "list": [None, 1.0]}
    json.dumps(data, allow_nan=False)


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(RecordError, match="status 'fine' is unknown"):
        sample(status="fine")


@pytest.mark.parametrize(
    "damage", [[], {"schema_version": 99}, {"schema_version": 1}, {"schema_version": 1, "throughput": 3}]
)
def test_damaged_data_is_refused(damage: object) -> None:
    with pytest.raises(RecordError):
        from_json(damage)


def test_a_field_of_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(RecordError, match="colour"):
        from_json(to_json(sample()) | {"colour": "red"})
