"""A study, its prices and its workload put together: the frames behind a report, and its tables in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from analysis.bands import band_table
from analysis.choice import Constraints
from analysis.cost import cost_table
from analysis.currency import parse_rates
from analysis.decision import Decision, decide
from analysis.options import merge_repeats, with_predictions
from analysis.prices import Quote
from analysis.repeats import compare_modes, repeat_table
from analysis.scaling import scaling_table
from analysis.series import is_measured, numbers, texts
from analysis.tables import Table, plain
from analysis.tables_checks import bands_view, has_repeats, modes_view, repeats_view
from analysis.tables_collectives import collectives_summary, collectives_view
from analysis.tables_cost import cost_views
from analysis.tables_decision import decision_view
from analysis.tables_scaling import scaling_view
from analysis.tables_study import environment_view, failures_view, not_measured, notices
from analysis.text import Say, sayer
from configs.errors import ConfigError, choose
from configs.schema import Costs, Decide, Workload

BILLION = 1e9
MOST_SIZES = 60  # of collectives that a terminal shows one by one
DATA_SET, RATE = "workload.data_set_tokens", "throughput.tokens_per_s"


@dataclass(frozen=True)
class Report:
    """A study's report, from which every format is rendered.

    cells: as given, in order. frames: scaling, cost, collectives and failures with all digits. decisions: one for each
    model and currency. tables: what people read, in order; details: more of them, for files rather than a terminal.
    """

    study: str
    lang: str
    title: str
    summary: str
    notices: tuple[str, ...]
    cells: pd.DataFrame
    quotes: tuple[Quote, ...]
    frames: dict[str, pd.DataFrame]
    decisions: tuple[Decision, ...]
    tables: tuple[Table, ...]
    details: tuple[Table, ...]


@dataclass(frozen=True)
class Terms:
    """What costs and decisions are computed under. card_names: machine -> what drivers call its card."""

    workload: Workload = field(default_factory=Workload)
    costs: Costs = field(default_factory=Costs)
    options: Decide = field(default_factory=Decide)
    card_names: Mapping[str, Iterable[str]] = field(default_factory=dict)
    cards_per_node: int = 8  # of the machine that predictions are for


def make_report(
    name: str,
    cells: pd.DataFrame,
    collectives: pd.DataFrame,
    quotes: Sequence[Quote],
    terms: Terms | None = None,
    left_out: Sequence[str] = (),
    lang: str = "en",
) -> Report:
    """Compute every frame and table of a study's report. Raises ConfigError for what `cost_table` and `decide` refuse.

    cells, collectives: frames as results.store reads them; may be empty. left_out: what the reader could not use.
    """
    terms = terms or Terms()
    say = sayer(lang)
    cells = in_order(cells)
    said = [*notices(cells, name, say), *(say("notice.damaged", what=what) for what in left_out)]
    failed = not_measured(cells)
    summary = say("cells", good=len(cells) - len(failed), total=len(cells))
    frames = {"scaling": pd.DataFrame(), "cost": pd.DataFrame(), "collectives": collectives, "failures": failed}
    decisions: list[Decision] = []
    tables: list[Table] = []
    details: list[Table] = []
    training = cells[texts(cells, "benchmark").isin(["", "finetune"])] if len(cells) else cells
    if len(training):
        if RATE not in training.columns:
            training = training.assign(**{RATE: float("nan")})
        frames["scaling"] = scaling_table(training)
    if is_measured(training).any():
        merged = merge_repeats(training)
        tokens, per_epoch = epoch_sizes(merged, terms.workload)
        frames["cost"] = costs_of(merged, quotes, tokens, terms)
        decisions = decide_all(merged, quotes, tokens, terms, lang)
        titles = [_decision_title(decision, decisions, say) for decision in decisions]
        tables += [
            decision_view(decision, f"decision{number or ''}", title, say)
            for number, (decision, title) in enumerate(zip(decisions, titles, strict=True))
        ]
        tables.append(scaling_view(frames["scaling"], training, say, lang))
        bands, repeats = band_table(training), repeat_table(training)
        tables += [bands_view(bands, say)] if len(bands) else []
        tables += [repeats_view(repeats, say, lang)] if has_repeats(repeats) else []
        tables += cost_views(frames["cost"], quotes, tokens, per_epoch, say, lang)
        modes = compare_modes(training)
        details += [modes_view(modes, say)] if len(modes) else []
    if len(collectives):
        every_size = collectives_view(collectives, say, lang)
        long = len(every_size.rows) > MOST_SIZES
        tables.append(collectives_summary(collectives, say, lang) if long else every_size)
        details += [replace(every_size, name="collectives_sizes")] if long else []
    if len(failed):
        tables.append(failures_view(cells, say))
    if len(cells):
        details.append(environment_view(cells, say))
    title = say("title", study=name)
    return Report(
        *(name, lang, title, summary, tuple(said), cells, tuple(quotes)),
        frames=frames,
        decisions=tuple(decisions),
        tables=tuple(table for table in tables if table.rows or table.notes),
        details=tuple(table for table in details if table.rows),
    )


def decide_all(
    cells: pd.DataFrame, quotes: Sequence[Quote], tokens: Mapping[str, float], terms: Terms, lang: str
) -> list[Decision]:
    """The choice that the `decide` command would make, for each model and each currency apart.

    Two models are no alternatives to each other, and two currencies cannot be ranked without a rate: a budget without
    a currency is taken in each. cells: repeats merged. tokens: model -> target tokens of one epoch.
    """
    options, workload = terms.options, terms.workload
    limits = Constraints(
        deadline_hours=workload.deadline_hours,
        budget=workload.budget,
        max_memory_share=options.max_memory_share,
        card_counts=tuple(options.card_counts) or None,
    )
    names = texts(cells, "workload.model")
    decisions = []
    for model in tokens if options.model is None else [choose("decide.model", options.model, tokens)]:
        rows = cells[(names == model).to_numpy()]
        if options.predict:
            counts = options.card_counts
            deadline, epochs = workload.deadline_hours, workload.epochs
            rows = with_predictions(rows, tokens[model], epochs, deadline, counts, terms.cards_per_node)
        priced = costs_of(rows, quotes, {model: tokens[model]}, terms)
        for _, group in priced.groupby("currency", sort=False):
            decisions.append(decide(group.reset_index(drop=True), limits, options.objective, quotes, lang))
    return decisions


def _decision_title(decision: Decision, decisions: Sequence[Decision], say: Say) -> str:
    """Which model and currency it is for, where there are several."""
    if len(decisions) == 1:
        return say("decision.title")
    names = ("model", "currency")
    several = [name for name in names if len({str(each.cells[name].iloc[0]) for each in decisions}) > 1]
    return say("decision.title_of", what=", ".join(plain(decision.cells[name].iloc[0]) for name in several))


def in_order(cells: pd.DataFrame) -> pd.DataFrame:
    """`cells` by model, mode and cards, whatever order they were written or measured in."""
    names = ("workload.model", "parallel.mode", "cell_id")
    keys = pd.DataFrame({name: texts(cells, name).to_numpy() for name in names})
    keys.insert(2, "cards", numbers(cells, "parallel.cards"))
    return cells.iloc[keys.sort_values(list(keys.columns), kind="stable").index].reset_index(drop=True)


def epoch_sizes(cells: pd.DataFrame, workload: Workload) -> tuple[dict[str, float], bool]:
    """(model -> target tokens that costs are for, whether these are an epoch).

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
    return {
        name: float(size) if per_epoch and size is not None else BILLION for name, size in tokens.items()
    }, per_epoch


def costs_of(cells: pd.DataFrame, quotes: Sequence[Quote], tokens: Mapping[str, float], terms: Terms) -> pd.DataFrame:
    """`cost_table` of all cells, each model's for its own epoch."""
    model = texts(cells, "workload.model")
    rates = parse_rates(terms.options.rates)
    parts = [
        cost_table(
            cells[(model == name).to_numpy()],
            quotes,
            size,
            terms.workload.epochs,
            terms.costs,
            rates,
            terms.options.currency,
            terms.card_names,
        )
        for name, size in tokens.items()
    ]
    return pd.concat(parts, ignore_index=True)
