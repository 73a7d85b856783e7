"""A study, its prices and its workload put together: the frames behind a report, its tables and figures in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.cost.report_costs import Priced, Terms, price
from analysis.decision import Decision
from analysis.figures import Figure
from analysis.figures.cost import cost_figure, pareto_figure
from analysis.figures.links import bandwidth_figure
from analysis.figures.scaling import scaling_figures
from analysis.prices import Quote
from analysis.scaling import scaling_table
from analysis.scaling.bands import band_table
from analysis.scaling.repeats import compare_modes, repeat_table
from analysis.scaling.series import is_measured, numbers, texts
from analysis.tables import Table, plain
from analysis.tables.checks import bands_view, has_repeats, modes_view, repeats_view
from analysis.tables.collectives import collectives_summary, collectives_view
from analysis.tables.cost import cost_views
from analysis.tables.decision import decision_view
from analysis.tables.matmul import matmul_view
from analysis.tables.scaling import scaling_view
from analysis.tables.study import environment_view, failures_view, not_measured, notices
from analysis.text import Say, sayer

MOST_SIZES = 60  # of collectives that a terminal shows one by one
RATE = "throughput.tokens_per_s"


@dataclass(frozen=True)
class Report:
    """A study's report, from which every format is rendered.

    cells: as given, in order. frames: scaling, cost, collectives and failures with all digits. priced: None where
    nothing was measured. tables: what people read, in order; details: more of them, for files rather than a terminal.
    """

    study: str
    lang: str
    title: str
    summary: str
    notices: tuple[str, ...]
    cells: pd.DataFrame
    quotes: tuple[Quote, ...]
    frames: dict[str, pd.DataFrame]
    priced: Priced | None
    tables: tuple[Table, ...]
    details: tuple[Table, ...]
    figures: tuple[Figure, ...]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return self.priced.decisions if self.priced else ()


def make_report(
    name: str,
    cells: pd.DataFrame,
    collectives: pd.DataFrame,
    quotes: Sequence[Quote],
    terms: Terms | None = None,
    left_out: Sequence[str] = (),
    lang: str = "en",
    matmul: pd.DataFrame | None = None,
) -> Report:
    """Compute every frame and table of a study's report. Raises ConfigError for what `cost_table` and `decide` refuse.

    cells, collectives, matmul: frames as results.store reads them; may be empty. left_out: what could not be read.
    """
    say = sayer(lang)
    cells = in_order(cells)
    failed = not_measured(cells)
    training = _training(cells)
    scaling = scaling_table(training) if len(training) else pd.DataFrame()
    priced = price(training, quotes, terms or Terms(), lang) if is_measured(training).any() else None
    costs = priced.costs if priced else pd.DataFrame()
    tables: list[Table] = []
    details: list[Table] = []
    if priced:
        tables += _money_and_speed(training, scaling, priced, quotes, say, lang)
        details += _table_with_rows(modes_view(compare_modes(training), say))
    if len(collectives):
        every_size = collectives_view(collectives, say, lang)
        long = len(every_size.rows) > MOST_SIZES
        tables.append(collectives_summary(collectives, say, lang) if long else every_size)
        details += [replace(every_size, name="collectives_sizes")] if long else []
    products = matmul if matmul is not None else pd.DataFrame()
    tables += [matmul_view(products, say)] if len(products) else []
    tables += _table_with_rows(failures_view(cells, say))
    details += _table_with_rows(environment_view(cells, say))
    return Report(
        study=name,
        lang=lang,
        title=say("title", study=name),
        summary=say("cells", good=len(cells) - len(failed), total=len(cells)),
        notices=(*notices(cells, name, say), *(say("notice.damaged", what=what) for what in left_out)),
        cells=cells,
        quotes=tuple(quotes),
        frames={
            "scaling": scaling,
            "cost": costs,
            "collectives": collectives,
            "matmul": products,
            "failures": failed,
        },
        priced=priced,
        tables=tuple(tables),
        details=tuple(details),
        figures=tuple(_figures(training, scaling, collectives, priced, say)),
    )


def in_order(cells: pd.DataFrame) -> pd.DataFrame:
    """`cells` by model, mode and cards, whatever order they were written or measured in."""
    names = ("workload.model", "parallel.mode", "cell_id")
    keys = pd.DataFrame({name: texts(cells, name).to_numpy() for name in names})
    keys.insert(2, "cards", numbers(cells, "parallel.cards"))
    return cells.iloc[keys.sort_values(list(keys.columns), kind="stable").index].reset_index(drop=True)


def _training(cells: pd.DataFrame) -> pd.DataFrame:
    """The fine-tuning cells, with a column for their throughput even where none has any."""
    rows = cells[texts(cells, "benchmark").isin(["", "finetune"])] if len(cells) else cells
    return rows if RATE in rows.columns else rows.assign(**{RATE: float("nan")})


def _money_and_speed(
    cells: pd.DataFrame, scaling: pd.DataFrame, priced: Priced, quotes: Sequence[Quote], say: Say, lang: str
) -> list[Table]:
    """Decision, scaling, what it is held against, and costs."""
    tables = [
        decision_view(decision, f"decision{number or ''}", _decision_title(decision, priced.decisions, say), say)
        for number, decision in enumerate(priced.decisions)
    ]
    tables.append(scaling_view(scaling, cells, say, lang))
    tables += _table_with_rows(bands_view(band_table(cells), say))
    repeats = repeat_table(cells)
    tables += [repeats_view(repeats, say, lang)] if has_repeats(repeats) else []
    return tables + cost_views(priced.costs, quotes, priced.tokens, priced.per_epoch, say, lang)


def _figures(
    cells: pd.DataFrame, scaling: pd.DataFrame, collectives: pd.DataFrame, priced: Priced | None, say: Say
) -> list[Figure]:
    figures: list[Figure | None] = []
    if priced:
        figures += scaling_figures(scaling, priced.predicted, cells, say)
        figures.append(cost_figure(priced.costs, priced.per_epoch, say))
        figures += [pareto_figure(decision, number, say) for number, decision in enumerate(priced.decisions)]
    if len(collectives):
        figures.append(bandwidth_figure(collectives, say))
    return [figure for figure in figures if figure is not None]


def _table_with_rows(table: Table) -> list[Table]:
    return [table] if table.rows else []


def _decision_title(decision: Decision, decisions: Sequence[Decision], say: Say) -> str:
    """Which model and currency it is for, where there are several."""
    if len(decisions) == 1:
        return say("decision.title")
    names = ("model", "currency")
    several = [name for name in names if len({str(each.cells[name].iloc[0]) for each in decisions}) > 1]
    return say("decision.title_of", what=", ".join(plain(decision.cells[name].iloc[0]) for name in several))
