"""What is said of two studies in one or two sentences."""

from __future__ import annotations

import pandas as pd
import pytest

from analysis.tables.compare import compare_summary
from analysis.text import sayer


@pytest.mark.parametrize(("basis", "warned"), [("steps", True), ("runs", False)])
def test_only_differences_without_repeats_are_warned_of(basis: str, warned: bool) -> None:
    cells = pd.DataFrame({"ratio": [1.5, 0.5, 1.1], "differs": [True, True, False], "basis": [basis, "runs", "steps"]})
    text = compare_summary(cells, "x", "y", sayer("en"))
    assert "y is significantly faster than x in 1 of 3 shared cells and slower in 1" in text
    assert ("1 of these differences rest on single runs" in text) == warned
