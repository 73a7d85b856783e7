"""A study, its prices and its workload put together: the frames behind a report, and its tables in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.cost import cost_table
from analysis.prices import Quote
from analysis.scaling import scaling_table
from analysis.series import numbers, texts
from analysis.tables import Table
from analysis.tables_cost import cost_views
from analysis.tables_scaling import scaling_view
from analysis.tables_study import collectives_view, failures_view, not_measured, notices
from analysis.text import sayer
from configs.errors import ConfigError
from configs.schema import Costs, Workload

BILLION = 1e9
DATA_SET = "workload.data_set_tokens"


@dataclass(frozen=True)
class Report:
    """frames: scaling, cost, collectives and failures with all digits; tables: what people read, in order."""

    title: str
    summary: str
    notices: tuple[str, ...]
    frames: dict[str, pd.DataFrame]
    tables: tuple[Table, ...]


def make_report(
    name: str,
    cells: pd.DataFrame,
    collectives: pd.DataFrame,
    quotes: Sequence[Quote],
    workload: Workload,
    costs: Costs | None = None,
    left_out: Sequence[str] = (),
    card_names: Mapping[str, Iterable[str]] | None = None,
    lang: str = "en",
) -> Report:
    """Compute every frame and table of a study's report. Raises ConfigError for what `cost_table` refuses.

    cells, collectives: frames as results.store reads them; may be empty. left_out: what the reader could not use.
    """
    say = sayer(lang)
    cells = in_order(cells)
    said = [*notices(cells, name, say), *(say("notice.damaged", what=what) for what in left_out)]
    failed = not_measured(cells)
    frames = {"scaling": pd.DataFrame(), "cost": pd.DataFrame(), "collectives": collectives, "failures": failed}
    tables: list[Table] = []
    if len(cells) and "throughput.tokens_per_s" not in cells.columns:
        cells = cells.assign(**{"throughput.tokens_per_s": float("nan")})
    if len(cells):
        frames["scaling"] = scaling_table(cells)
        if frames["scaling"]["tokens_per_s"].notna().any():
            tables.append(scaling_view(frames["scaling"], cells, say, lang))
            frames["cost"], tokens, per_epoch = epoch_costs(cells, quotes, workload, costs, card_names)
            tables += cost_views(frames["cost"], quotes, tokens, per_epoch, say, lang)
    if len(collectives):
        tables.append(collectives_view(collectives, say))
    if len(failed):
        tables.append(failures_view(cells, say))
    summary = say("cells", good=len(cells) - len(failed), total=len(cells))
    return Report(say("title", study=name), summary, tuple(said), frames, tuple(tables))


def in_order(cells: pd.DataFrame) -> pd.DataFrame:
    """`cells` by model, mode and cards, whatever order they were written or measured in."""
    names = ("workload.model", "parallel.mode", "cell_id")
    keys = pd.DataFrame({name: texts(cells, name).to_numpy() for name in names})
    keys.insert(2, "cards", numbers(cells, "parallel.cards"))
    return cells.iloc[keys.sort_values(list(keys.columns), kind="stable").index].reset_index(drop=True)


def epoch_costs(
    cells: pd.DataFrame,
    quotes: Sequence[Quote],
    workload: Workload,
    costs: Costs | None = None,
    card_names: Mapping[str, Iterable[str]] | None = None,
) -> tuple[pd.DataFrame, dict[str, float], bool]:
    """(`cost_table` of all cells, model -> tokens it is for, whether these are an epoch).

    An epoch is workload.epoch_tokens; where that is None, each model's measured data set; where the records state
    none, costs are for a billion tokens. Raises ConfigError where one model was measured on several data sets.
    """
    model = texts(cells, "workload.model")
    tokens: dict[str, float | None] = dict.fromkeys(model, workload.epoch_tokens)
    if workload.epoch_tokens is None:
        size = pd.Series(numbers(cells, DATA_SET), index=cells.index)
        for name in tokens:
            stated = sorted(size[model == name].dropna().unique())
            if len(stated) > 1:
                what = f"model {name} was measured on data sets of {' and '.join(f'{n:,.0f}' for n in stated)} tokens"
                raise ConfigError("workload.epoch_tokens", what, "give the tokens of one epoch")
            tokens[name] = float(stated[0]) if stated else None
    per_epoch = all(size is not None for size in tokens.values())
    known = {name: float(size) if per_epoch and size is not None else BILLION for name, size in tokens.items()}
    parts = [
        cost_table(cells[(model == name).to_numpy()], quotes, size, workload.epochs, costs, card_names=card_names)
        for name, size in known.items()
    ]
    return pd.concat(parts, ignore_index=True), known, per_epoch
