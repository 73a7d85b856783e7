"""Remarks that the analysis puts beside rows: the English templates, and what they are in Chinese."""

from __future__ import annotations

REMARKS: tuple[tuple[str, str], ...] = (
    # speedup and efficiency
    ("superlinear", "超线性：高于理想加速"),
    ("above 1 within its interval", "效率高于 100 %，但在误差区间之内"),
    ("slower than with fewer cards", "比更少的卡还慢"),
    ("no positive throughput: not used", "没有正的吞吐量：未采用"),
    ("the same row again", "重复的行"),
    ("several rows at this count", "该卡数有多行数据"),
    ("strong and weak rows split into series", "强扩展与弱扩展的行已拆成不同系列"),
    ("batch per card differs along the series", "系列内每卡批量不一致"),
    ("different GPUs split into series", "不同型号的卡已拆成不同系列"),
    ("heterogeneous cards in the job", "任务中的卡型号不一"),
    ("oversubscribed: more ranks than cores", "超额占用：进程数多于 CPU 核数"),
    ("clocks throttled", "时钟被降频"),
    ("unsteady steps", "步时不稳定"),
    ("more nodes than the base", "节点数多于基准"),
    ("no one-card measurement", "没有单卡测量"),
    # costs
    ("{count} idle cards are billed", "{count} 张闲置卡也计费"),
    (
        "throughput carried over from other links by the band for them, not measured",
        "吞吐量由其他互联按经验区间换算，并非实测",
    ),
    (
        "needs several servers; the cell does not say how many it was measured on",
        "需要多台服务器；该数据未说明实测用了几台",
    ),
    ("measured on another card ({device}) than {machine}", "实测所用的卡（{device}）不是 {machine}"),
    ("no card is named: taken for the quote's {machine}", "未注明卡型：按 {machine} 计"),
    ("cannot tell whether {device} is the quote's {machine}", "无法判断 {device} 是否为 {machine}"),
    ("does not fit: needs more memory than the {machine} has", "放不下：所需显存超过 {machine}"),
    ("memory is tight: above {share} of the card", "显存紧张：超过整卡的 {share}"),
    ("more cards than the tier offers", "超过该档可租的卡数"),
    # repeats
    ("one run: its spread between runs is not known", "只有一次运行：各次之间的差异未知"),
    ("runs differ by more than their steps explain", "各次之间的差异超出单次内各步所能解释的范围"),
    # collectives
    (
        "all_reduce busbw {peak} GB/s on {ranks} ranks is above the {gathered} of all_gather: "
        "the switch reduces, so less data moves than the formula counts; all_gather shows the links",
        "{ranks} 个进程上 all_reduce 的 busbw 为 {peak} GB/s，高于 all_gather 的 {gathered}："
        "由交换机做归约，实际传输量少于公式所计；链路速度以 all_gather 为准",
    ),
    # price sheets
    ("the sheet has no date: ask whether the prices still hold", "报价单没有日期：请确认价格是否仍有效"),
    ("the sheet is dated {day}, in the future: check it", "报价单日期 {day} 在将来：请核对"),
    ("the prices are of {day}, {age} days old: ask again", "价格为 {day} 的，已过 {age} 天：请重新询价"),
    ("free", "免费"),
    ("price not stated: left out of the ranking", "未标价：不参与排名"),
    ("price {low} to {high} is an unusually wide range: check it", "价格 {low} 至 {high} 区间过宽：请核对"),
    ("converted at {rate}, a rate without a date", "按 {rate} 换算，汇率没有日期"),
    ("converted at {rate} of {day}", "按 {day} 的汇率 {rate} 换算"),
)
