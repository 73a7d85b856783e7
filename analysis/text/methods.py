"""The sentences of a study's methods paragraph, each as (English, Chinese)."""

from __future__ import annotations

METHODS: dict[str, tuple[str, str]] = {
    "methods.title": ("Methods: {study}", "方法：{study}"),
    "methods.measured": (
        "Fine-tuning of {models} was measured in {modes} on {cards} cards: {good} of {total} cells.",
        "在 {cards} 张卡上以 {modes} 测量了 {models} 的微调：{total} 个单元中测得 {good} 个。",
    ),
    "methods.days": ("Cells started from {first} to {last} (UTC).", "各单元开始于 {first} 至 {last}（UTC）。"),
    "methods.hardware": ("Hardware: {what}.", "硬件：{what}。"),
    "methods.cpu": (
        "Processes on a processor stood in for cards.",
        "以处理器上的进程代替显卡。",
    ),
    "methods.software": ("Software: {what}.", "软件：{what}。"),
    "methods.workload": ("Workload: {what}.", "工作负载：{what}。"),
    "methods.sequence": ("sequences of {what} tokens", "序列长度 {what} token"),
    "methods.batch": ("{what} tokens in a global batch", "全局批量 {what} token"),
    "methods.strong": ("strong scaling (the global batch is fixed)", "强扩展（全局批量固定）"),
    "methods.weak": ("weak scaling (the batch per card is fixed)", "弱扩展（每卡批量固定）"),
    "methods.steps": (
        "After warm-up, {steps} whole optimizer steps of each cell were timed, each as long as its slowest rank; "
        "throughput is the tokens of the global batch over the median step.",
        "预热之后，每个单元计时 {steps} 个完整的优化器步，每步以最慢的进程为准；"
        "吞吐量为全局批量的 token 数除以步时中位数。",
    ),
    "methods.intervals": (
        "95 % intervals of the median step are percentiles of a moving-block bootstrap (Künsch 1989) with {resamples} "
        "resamples; their half-width was {width} % of the median (median over cells).",
        "步时中位数的 95 % 区间取自移动块自助法（Künsch 1989，{resamples} 次重采样）的分位数；"
        "其半宽为中位数的 {width} %"
        "（各单元的中位值）。",
    ),
    "methods.once": (
        "Each cell was measured once: the spread between runs is not known.",
        "每个单元只测量一次：不同运行之间的离散程度未知。",
    ),
    "methods.repeats": (
        "{repeated} of {points} points were measured more than once ({runs} runs).",
        "{points} 个测点中有 {repeated} 个重复测量（{runs} 次）。",
    ),
    "methods.imported": (
        "{count} cells were imported from {files} and not measured here.",
        "{count} 个单元由 {files} 导入，并非在此测量。",
    ),
    "methods.elsewhere": ("elsewhere", "别处"),
    "methods.failed": (
        "{count} cells gave no measurement ({how}) and are reported as such.",
        "{count} 个单元未能得到测量值（{how}），报告中如实列出。",
    ),
    "methods.bib_title": ("Scaling measurements: {study}", "扩展性测量：{study}"),
    "methods.bib_note": (
        "{good} cells on {device}; SHA-256 of the measurements: {digest}",
        "{device} 上的 {good} 个单元；测量数据的 SHA-256：{digest}",
    ),
}
