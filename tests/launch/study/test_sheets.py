from __future__ import annotations

from pathlib import Path

import pytest

from configs.errors import ConfigError
from launch.study.sheets import load_sheets, sheet_names

SHEET = """\
provider: P
currency: CNY
machine: a100_80g
tiers:
  - {name: hourly, unit: card_hour, price: [20, 35]}
"""


def test_every_sheet_that_comes_with_cardscale_loads() -> None:
    assert [quote.name for quote in load_sheets(sheet_names())] == sheet_names()


@pytest.mark.parametrize(
    ("tier", "price"),
    [
        ("hourly", (20, 35)),
        ("hourly_8card_node", (20 * 0.70, 35 * 0.85)),
        ("monthly", (8000, 12000)),
        ("monthly_8card_node", (60000, 80000)),
    ],
)
def test_jiangsu_holds_the_figures_of_the_article(tier: str, price: tuple[float, float]) -> None:
    tiers = {t.name: t for t in load_sheets(["jiangsu"])[0].tiers}
    assert tiers[tier].paid == price


def test_an_h800_hour_in_jiangsu_costs_40_to_60() -> None:
    assert load_sheets(["jiangsu_h800"])[0].tiers[0].price == (40, 60)


def test_an_unknown_name_gives_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean jiangsu"):
        load_sheets(["jiangsy"])


def test_a_path_counts_from_the_folder_of_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text(SHEET, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert load_sheets(["mine.yaml"])[0].name == "mine"


def test_names_can_come_in_one_text_with_commas() -> None:
    assert len(load_sheets(["jiangsu,jiangsu_h800"])) == 2


def test_a_sheet_named_twice_is_read_once() -> None:
    assert len(load_sheets(["jiangsu", "jiangsu"])) == 1


def test_where_no_sheet_is_named_it_is_the_example() -> None:
    assert [quote.name for quote in load_sheets([])] == ["jiangsu"]


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"prices: gone.yaml does not exist"):
        load_sheets(["gone.yaml"], tmp_path)


def test_a_field_written_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "twice.yaml").write_text(SHEET + "currency: USD\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"twice.yaml: line 6: .*'currency' is there twice"):
        load_sheets(["twice.yaml"], tmp_path)


def test_broken_yaml_is_one_line_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("tiers: [\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"broken.yaml: line 2: cannot be read as YAML"):
        load_sheets(["broken.yaml"], tmp_path)


def test_a_csv_of_two_providers_gives_two_quotes_ready_to_be_priced(tmp_path: Path) -> None:
    text = "provider,gpu,currency,unit,price\nP,a100,CNY,gpu-hour,20\nQ,a100,CNY,gpu-hour,25\n"
    (tmp_path / "quotes.csv").write_text(text, encoding="utf-8")
    assert [quote.provider for quote in load_sheets(["quotes.csv"], tmp_path)] == ["P", "Q"]


def test_a_bad_cell_of_a_csv_names_file_row_and_column(tmp_path: Path) -> None:
    (tmp_path / "quotes.csv").write_text("gpu,currency,unit,price\na100,CNY,gpu-hour,cheap\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^quotes.csv: row 2: price: 'cheap' is not a number"):
        load_sheets(["quotes.csv"], tmp_path)
