"""The money of a report: what an epoch is, what every cell costs under the report's terms, and the decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from analysis.cost import cost_table
from analysis.cost.options import merge_repeats, with_predictions
from analysis.decision import Decision, decide
from analysis.decision.assumed import Assumed, assumed_epoch
from analysis.decision.choice import Constraints
from analysis.prices import Quote
from analysis.prices.currency import parse_rates
from analysis.scaling.series import numbers, texts
from configs.errors import ConfigError, choose
from configs.schema import Costs, Decide, Workload

BILLION = 1e9
DATA_SET = "workload.data_set_tokens"


@dataclass(frozen=True)
class Terms:
    """What costs and decisions are computed under. card_names: machine -> what drivers call its card, card_memory: its
    GiB. assumed: what nobody stated, beside the size of an epoch and the card."""

    workload: Workload = field(default_factory=Workload)
    costs: Costs = field(default_factory=Costs)
    options: Decide = field(default_factory=Decide)
    card_names: Mapping[str, Iterable[str]] = field(default_factory=dict)
    card_memory: Mapping[str, float] = field(default_factory=dict)
    cards_per_node: int = 8  # of the machine that predictions are for
    assumed: tuple[Assumed, ...] = ()


@dataclass(frozen=True)
class Priced:
    """costs: `cost_table` of the measured cells, repeats merged. tokens: model -> what an epoch is, or a billion.

    predicted: the counts that were predicted for the decisions, in a study's columns.
    """

    costs: pd.DataFrame
    predicted: pd.DataFrame
    tokens: dict[str, float]
    per_epoch: bool
    decisions: tuple[Decision, ...]


def price(cells: pd.DataFrame, quotes: Sequence[Quote], terms: Terms, lang: str) -> Priced:
    """Price `cells`, and decide as the `decide` command would: for each model and each currency apart.

    Two models are no alternatives to each other, and two currencies cannot be ranked without a rate: a budget without
    a currency is taken in each. cells: of which some are measured. Raises ConfigError for what its parts refuse.
    """
    cells = merge_repeats(cells)
    tokens, per_epoch = epoch_sizes(cells, terms.workload)
    model = texts(cells, "workload.model")
    wanted = None if terms.options.model is None else choose("decide.model", terms.options.model, tokens)
    costs, predicted = [], []
    decisions: list[Decision] = []
    for name, size in tokens.items():
        rows = cells[(model == name).to_numpy()]
        costs.append(costs_of(rows, quotes, size, terms))
        if wanted not in (None, name):
            continue
        every = considered(rows, size, terms)
        predicted.append(every.iloc[len(rows) :])
        assumed = (*assumed_epoch(size, terms.workload.epoch_tokens, per_epoch), *terms.assumed)
        decisions += _decide_each(costs_of(every, quotes, size, terms), quotes, terms, assumed, lang)
    more = pd.concat(predicted, ignore_index=True)
    return Priced(pd.concat(costs, ignore_index=True), more, tokens, per_epoch, tuple(decisions))


def epoch_sizes(cells: pd.DataFrame, workload: Workload) -> tuple[dict[str, float], bool]:
    """(model -> target tokens that costs are for, whether these are an epoch).

    An epoch is workload.epoch_tokens; where that is None, each model's measured data set; where the records state
    none, costs are for a billion tokens. Raises ConfigError where one model was measured on several data sets, and
    where a deadline or a budget is for a job whose size is not known.
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
    needs = [name for name in ("deadline_hours", "budget") if getattr(workload, name) is not None]
    if needs and None in tokens.values():
        what = f"is not stated, and workload.{needs[0]} is for a job of so many"
        raise ConfigError("workload.epoch_tokens", what, "the target tokens of one epoch of your data")
    known = {name: float(size) for name, size in tokens.items() if size is not None}
    per_epoch = len(known) == len(tokens)
    return known if per_epoch else dict.fromkeys(tokens, BILLION), per_epoch


def costs_of(cells: pd.DataFrame, quotes: Sequence[Quote], tokens: float, terms: Terms) -> pd.DataFrame:
    """`cost_table` of one model's cells under `terms`; tokens: of one epoch."""
    options = terms.options
    return cost_table(
        cells,
        quotes,
        tokens,
        terms.workload.epochs,
        terms.costs,
        parse_rates(options.rates),
        options.currency,
        terms.card_names,
        terms.card_memory,
    )


def considered(rows: pd.DataFrame, tokens: float, terms: Terms) -> pd.DataFrame:
    """One model's cells and, with decide.predict, the counts that were not measured; tokens: of one epoch."""
    options, workload = terms.options, terms.workload
    if not options.predict:
        return rows
    counts, per_node = options.card_counts, terms.cards_per_node
    return with_predictions(rows, tokens, workload.epochs, workload.deadline_hours, counts, per_node)


def limits_of(terms: Terms) -> Constraints:
    """What a choice must respect under `terms`."""
    return Constraints(
        deadline_hours=terms.workload.deadline_hours,
        budget=terms.workload.budget,
        max_memory_share=terms.options.max_memory_share,
        card_counts=tuple(terms.options.card_counts) or None,
        model=terms.options.model,
    )


def _decide_each(
    priced: pd.DataFrame, quotes: Sequence[Quote], terms: Terms, assumed: Sequence[Assumed], lang: str
) -> list[Decision]:
    """One decision a currency."""
    return [
        decide(rows.reset_index(drop=True), limits_of(terms), terms.options.objective, quotes, lang, assumed)
        for _, rows in priced.groupby("currency", sort=False)
    ]
