"""A citation as BibTeX."""

from __future__ import annotations

import re

from analysis.citation import Citation
from launch.render.bibtex import bibtex


def test_an_entry_is_balanced_and_its_texts_are_escaped() -> None:
    text = bibtex(Citation("cardscale-s-1", "a_b & {c}", 2026, "0.1.0", "2 cells at 90 %", "d"))
    assert text.count("{") == text.count("}")
    assert "@misc{cardscale-s-1,\n" in text
    assert r"title = {{a\_b \& \{c\}}}," in text
    assert r"note = {2 cells at 90 \%}," in text
    assert re.search(r"^  year = \{2026\},$", text, re.MULTILINE)


def test_a_year_that_is_not_known_is_left_out() -> None:
    assert "year" not in bibtex(Citation("k", "t", None, "", "n", "d"))
