"""How money, hours and priced rows are said in a sentence, in English (`en`) and Chinese (`zh`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from configs.errors import choose

LANGUAGES = ("en", "zh")
Row = Mapping[str, Any]


def row_at(rows: pd.DataFrame, index: int) -> Row:
    """The row at `index` as a plain mapping."""
    return {str(name): value for name, value in rows.loc[[index]].to_dict("records")[0].items()}


def say(lang: str, sentences: Mapping[str, tuple[str, str]], key: str, **values: object) -> str:
    """The sentence `key` of a catalogue of (English, Chinese), filled in with values that are already worded."""
    return sentences[key][LANGUAGES.index(choose("lang", lang, LANGUAGES))].format(**values)


def money(low: float, high: float, currency: str, lang: str = "en") -> str:
    """`960 to 1,680 CNY`; one figure where both ends read the same."""
    ends = [_amount(low), _amount(high)]
    between = " to " if lang == "en" else " 至 "
    return f"{ends[0]} {currency}" if ends[0] == ends[1] else f"{ends[0]}{between}{ends[1]} {currency}"


def span(low: float, high: float, worded: Callable[[float], str], lang: str = "en") -> str:
    """` (17.2 h to 80.3 h)`, to go behind the middle of it; nothing where both ends read the same."""
    ends = worded(low), worded(high)
    text = {"en": " ({} to {})", "zh": "（{} 至 {}）"}[lang]
    return "" if ends[0] == ends[1] else text.format(*ends)


def _amount(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}".removesuffix(".00") if abs(value) >= 0.1 or value == 0 else f"{value:.2g}"


def hours(value: float, lang: str = "en") -> str:
    """`27.8 h`; minutes and seconds where hours would round away what matters."""
    units = {"en": (" h", " min", " s"), "zh": (" 小时", " 分钟", " 秒")}[lang]
    if value >= 1 or value == 0:
        return f"{value:,.1f}".removesuffix(".0") + units[0]
    amount, unit = (value * 60, units[1]) if value * 60 >= 1 else (value * 3600, units[2])
    return f"{amount:.1f}".removesuffix(".0") + unit


def cards(count: float, lang: str = "en") -> str:
    if lang == "zh":
        return f"{count:g} 张卡"
    return "1 card" if count == 1 else f"{count:g} cards"


def epochs(count: float, lang: str = "en") -> str:
    if lang == "zh":
        return f"{count:g} 个 epoch "
    return "1 epoch" if count == 1 else f"{count:g} epochs"


def option(row: Row, lang: str = "en") -> str:
    """`4 cards (ddp), tier hourly of jiangsu`; what was not measured says so."""
    where = {"en": ", tier {tier} of {quote}", "zh": "，{quote} 的 {tier} 档"}[lang].format(**row)
    predicted = "" if row["measured"] else {"en": ", predicted", "zh": "，预测值"}[lang]
    return f"{cards(row['cards'], lang)} ({row['mode']}){where}{predicted}"


def total(row: Row, lang: str = "en") -> str:
    """What the whole job costs in the row."""
    return money(row["total_cost_low"], row["total_cost_high"], row["currency"], lang)


def difference(row: Row, other: Row, lang: str = "en") -> str:
    """How `row` compares with `other`: money at the high ends, time at the middle, as they are shown."""
    cost = row["total_cost_high"] - other["total_cost_high"]
    time = row["finish_hours"] - other["finish_hours"]
    amount, span = money(abs(cost), abs(cost), row["currency"], lang), hours(abs(time), lang)
    if lang == "zh":
        said = "费用相同" if abs(cost) < 0.005 else f"{'多' if cost > 0 else '少'}花 {amount}"
        return said + ("，用时相同" if abs(time) < 1e-6 else f"，{'晚' if time > 0 else '早'} {span} 完成")
    said = "costs the same" if abs(cost) < 0.005 else f"costs {amount} {'more' if cost > 0 else 'less'}"
    if abs(time) < 1e-6:
        return f"{said} and takes as long"
    return f"{said} and ends {span} {'later' if time > 0 else 'sooner'}"
