"""A decision for a person at a terminal: the reasons first, then the options that come into question, through rich."""

from __future__ import annotations

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.decision import Decision
from analysis.decision.choice import MAY_EXCEED, MAY_MISS, MEMORY_UNKNOWN, ranking, ranking_keys
from analysis.decision.wording import LANGUAGES, Row, hours, money, row_at

MOST_OPTIONS = 12
PIPE_WIDTH = 160  # where standard output is no terminal, rich would cut at 80

HEADINGS: dict[str, tuple[str, str]] = {
    "decision": ("Decision", "结论"),
    "nothing": ("Nothing meets the constraints", "没有方案满足约束"),
    "options": ("The best tier of each count and mode", "各卡数与模式的最佳价格档"),
    "cards": ("cards", "卡数"),
    "mode": ("mode", "模式"),
    "tier": ("tier", "价格档"),
    "basis": ("throughput", "吞吐量"),
    "epoch": ("epoch", "每 epoch"),
    "finish": ("all epochs", "全部完成"),
    "per_epoch": ("cost of an epoch", "单 epoch 费用"),
    "total": ("total cost", "总费用"),
    "fit": ("constraints", "约束"),
    "measured": ("measured", "实测"),
    "predicted": ("predicted", "预测"),
    "met": ("met", "满足"),
    "more": ("{count} more options: format=json lists all", "另有 {count} 个方案：format=json 列出全部"),
}
IN_CHINESE = {
    MAY_MISS: "可能超出期限",
    MAY_EXCEED: "可能超出预算",
    MEMORY_UNKNOWN: "显存未知",
    "misses the deadline": "超出期限",
    "over the budget": "超出预算",
    "misses the deadline and the budget": "超出期限和预算",
}


def print_decision(decision: Decision, out: Console, lang: str) -> None:
    """Print `decision` in `lang`: the reasons as a list, the options as a table, what must be known about prices."""
    if not out.is_terminal:
        out.width = PIPE_WIDTH
    out.print(Text(_said(lang, "decision" if decision.chosen is not None else "nothing"), style="bold"))
    for reason in decision.reasons:
        out.print(Text(f"- {reason}"), soft_wrap=not out.is_terminal)
    shown, left_out = options_shown(decision)
    if shown:
        out.print()
        out.print(_table(decision, shown, lang))
    if left_out:
        out.print(Text(_said(lang, "more").format(count=left_out), style="dim"))
    for note in _notes(decision.cells.loc[shown]):
        out.print(Text(f"* {note}", style="dim"), soft_wrap=not out.is_terminal)


def options_shown(decision: Decision) -> tuple[list[int], int]:
    """Indices of the best tier of each count, mode and quote, best first, at most MOST_OPTIONS; and how many are left.

    The chosen one and its alternatives are always among them.
    """
    cells = decision.cells[decision.cells["candidate"]]
    if cells.empty:
        return [], 0
    keys = ranking_keys(cells)
    order = [int(cells.index[i]) for i in ranking(keys, decision.objective)]
    best_of = cells.loc[order].drop_duplicates(["cards", "mode", "quote"]).index
    named = [decision.chosen, *(index for _, index in decision.alternatives)]
    wanted = [index for index in named if index is not None]
    wanted += [int(index) for index in best_of if index not in wanted]
    places = {index: place for place, index in enumerate(order)}
    shown = sorted(wanted[:MOST_OPTIONS], key=places.__getitem__)
    return shown, len(cells) - len(shown)


def _table(decision: Decision, shown: list[int], lang: str) -> Table:
    table = Table(title=_said(lang, "options"), title_justify="left", title_style="bold")
    for name, justify in (
        *((" ", "left"), ("cards", "right"), ("mode", "left"), ("tier", "left"), ("basis", "left")),
        *(("epoch", "right"), ("finish", "right"), ("per_epoch", "right"), ("total", "right"), ("fit", "left")),
    ):
        heading = name if name == " " else _said(lang, name)
        table.add_column(heading, justify="right" if justify == "right" else "left", overflow="fold")
    for index in shown:
        row = row_at(decision.cells, index)
        style = "bold" if index == decision.chosen else "" if row["measured"] else "italic magenta"
        table.add_row(*_values(row, index == decision.chosen, lang), style=style)
    return table


def _values(row: Row, chosen: bool, lang: str) -> list[Text]:
    fit = _said(lang, "met")
    if why := str(row["excluded"] or row["risk"]):
        fit = "，".join(IN_CHINESE.get(part, part) for part in why.split(", ")) if lang == "zh" else why
    idle = f"+{row['idle_cards']:g}" if row["idle_cards"] else ""
    return [
        Text(">" if chosen else ""),
        Text(f"{row['cards']:g}{idle}"),
        Text(row["mode"]),
        Text(f"{row['quote']}: {row['tier']}"),
        Text(_said(lang, "measured" if row["measured"] else "predicted")),
        Text(hours(row["epoch_hours"], lang)),
        Text(hours(row["finish_hours"], lang)),
        Text(money(row["cost_per_epoch_low"], row["cost_per_epoch_high"], row["currency"], lang)),
        Text(money(row["total_cost_low"], row["total_cost_high"], row["currency"], lang)),
        Text(fit),
    ]


def _notes(cells: pd.DataFrame) -> list[str]:
    """What the shown rows' notes say, each once, in their order."""
    notes = (note for notes in cells["notes"] for note in str(notes).split("; ") if note)
    return list(dict.fromkeys(notes))


def _said(lang: str, key: str) -> str:
    return HEADINGS[key][LANGUAGES.index(lang)]
