from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from analysis.tables import Column, Group, Row, Span, Table
from launch.render.latex import escape, latex_document, latex_table

NASTY = r"\input{/etc/passwd} 50% & #1 $x$ a_b ^2 ~ {x} <b> | \" ' ` [x] ×–· µ 中文，（é） 😀"


def _table(text: str = "plain", columns: int = 3) -> Table:
    made = (Column("text", text), *(Column(f"c{i}", f"c{i}", "CNY", "money") for i in range(columns)))
    rows = tuple(
        Row((text, *(Span(1000.0 * i, 2000.0 * i) for i in range(columns))), ("a", *("",) * columns)) for _ in range(4)
    )
    return Table("t/1", text, made, (Group(text, rows),), (text,), lead=(text,))


@pytest.mark.parametrize("character", list("\\{}$&#%_^~"))
def test_a_character_with_a_meaning_loses_it(character: str) -> None:
    assert re.fullmatch(r"\\[a-z]+\{\}|\\[{}$&#%_]", escape(character))


def test_a_command_in_a_text_is_printed_and_not_run() -> None:
    assert escape(r"\input{x}") == r"\textbackslash{}input\{x\}"


def test_a_character_without_a_glyph_is_named() -> None:
    assert escape("😀") == "[U+1F600]"


def test_every_row_has_as_many_cells_as_there_are_columns() -> None:
    lines = [line for line in latex_table(_table(NASTY)).splitlines() if line.endswith(r" \\")]
    assert len(lines) == 4 + 2 * 2  # rows, and the head with its units for the first page and for the others
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {3}


def test_a_table_wider_than_the_page_becomes_several_that_each_name_their_rows() -> None:
    text = latex_table(_table(columns=20))
    assert text.count(r"\begin{longtable}") > 1
    assert text.count(r"\label") == 1
    assert all(f"c{i}" in text for i in range(20))


def test_only_chinese_text_needs_the_chinese_fonts() -> None:
    assert "CJK" not in latex_document("t", ["p"], [_table()], "Table")
    assert "CJKutf8" in latex_document("t", ["p"], [_table("中文")], "Table")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("text", ["plain", NASTY.replace("中文，（é）", ""), NASTY])
def test_pdflatex_compiles_the_document(text: str, tmp_path: Path) -> None:
    document = latex_document(text, [text], [_table(text), _table(text, columns=20)], "Table")
    if "CJKutf8" in document and not _has("CJKutf8.sty"):
        pytest.skip("the Chinese fonts of LaTeX (package CJKutf8) are not installed")
    (tmp_path / "report.tex").write_text(document, encoding="utf-8")
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "report.pdf").stat().st_size > 10_000


def _has(style: str) -> bool:
    return subprocess.run(["kpsewhich", style], capture_output=True, check=False).returncode == 0
