"""The strings of a comparison of two studies, each as (English, Chinese)."""

from __future__ import annotations

COMPARE: dict[str, tuple[str, str]] = {
    "compare.title": ("{b} held against {a}", "{b} 与 {a} 对比"),
    "compare.rate": ("tokens/s in {study}", "{study} 的 tokens/s"),
    "compare.ratio": ("{b} / {a}", "{b} / {a}"),
    "compare.faster": ("faster", "更快"),
    "compare.slower": ("slower", "更慢"),
    "compare.verdict": ("{way}: {how}", "{way}：{how}"),
    "compare.summary": (
        "{b} is significantly faster than {a} in {faster} of {total} shared cells and slower in {slower}; the others "
        "may be chance or cannot be told.",
        "在 {total} 个共有单元中，{b} 显著快于 {a} 的有 {faster} 个，显著慢的有 {slower} 个；"
        "其余可能是偶然，或无法判断。",
    ),
    "compare.single": (
        "{count} of these differences rest on single runs, whose spread from run to run is not known: measure repeats "
        "(repeat=0,1,2) before acting on them.",
        "其中 {count} 个差异只依据单次运行，不同运行之间的离散程度未知：据此行动前请先重复测量（repeat=0,1,2）。",
    ),
    "compare.only": ("only in {study}: {cells}", "仅 {study} 中有：{cells}"),
    "compare.cell": ("{model} {mode} on {cards}", "{model} {mode} {cards} 卡"),
    "compare.definition": (
        "Ratio of mean throughputs at the same work, mode and cards, above 1 where {b} is faster; p two-sided, "
        "corrected after Holm for the number of cells. Without repeats in both studies it rests on the steps of single "
        "runs, which says nothing about another run.",
        "相同工作量、模式与卡数下平均吞吐量之比，大于 1 表示 {b} 更快；p 为双侧，并按单元数做 Holm 校正。若两项研究"
        "没有都做重复测量，则只依据单次运行的各步，不能推及另一次运行。",
    ),
}
