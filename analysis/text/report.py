"""The strings of a report, each as (English, Chinese); {names} are filled in with values that are already worded."""

from __future__ import annotations

REPORT: dict[str, tuple[str, str]] = {
    "title": ("Scaling report: {study}", "扩展性报告：{study}"),
    "cells": ("{good} of {total} cells measured", "共 {total} 个单元，测得 {good} 个"),
    # notices
    "notice.nothing": (
        "No cell was measured: there is no throughput to compute a speedup or a cost from. What failed is listed "
        "below.",
        "没有任何单元测量成功：无法计算加速比或成本。失败原因见下表。",
    ),
    "notice.empty": (
        "The study has no record yet: `cardscale run study={study}` measures one.",
        "该研究还没有任何记录：用 `cardscale run study={study}` 测量。",
    ),
    "notice.cpu": (
        "Measured on CPU: ranks (processes) stand in for cards. The speedups are those of this machine's cores, not of "
        "GPUs, and the prices are illustrative.",
        "在 CPU 上测量：以进程（rank）代替显卡。加速比反映的是本机 CPU 核，不代表 GPU，价格仅作示意。",
    ),
    "notice.oversubscribed": (
        "Cores are oversubscribed: up to {ranks} ranks ran on {cores} cores. Ranks beyond the cores share them and "
        "cannot speed up.",
        "CPU 核被超额占用：最多 {ranks} 个进程运行在 {cores} 个核上。超出核数的进程只能分时共享，不会加速。",
    ),
    "notice.cores_unknown": (
        "The records do not say how many cores there were; where ranks outnumber cores, they share them and cannot "
        "speed up.",
        "记录中没有 CPU 核数；进程数多于核数时只能分时共享，不会加速。",
    ),
    "notice.damaged": ("Left out: {what}", "已忽略：{what}"),
    "notice.failed": (
        'Cells without a measurement: {count}; the table "Not measured, and why" has them.',
        "有 {count} 个单元没有测量值：见“未测得的单元及原因”表。",
    ),
    # the scaling table
    "scaling.title": ("Scaling", "扩展性"),
    "scaling.cards": ("cards", "卡数"),
    "scaling.status": ("status", "状态"),
    "scaling.tokens": ("tokens/s", "tokens/s"),
    "scaling.per_card": ("per card", "每卡"),
    "scaling.speedup": ("speedup", "加速比"),
    "scaling.speedup_interval": ("speedup 95 %", "加速比 95 %"),
    "scaling.efficiency": ("eff.", "效率"),
    "scaling.step": ("step", "步时"),
    "scaling.memory": ("memory", "内存"),
    "scaling.marks": ("note", "注"),
    "scaling.group": ("{model} · {mode}", "{model} · {mode}"),
    "scaling.unnamed": ("unnamed model", "未注明模型"),
    "scaling.strong": ("strong scaling", "强扩展"),
    "scaling.weak": ("weak scaling", "弱扩展"),
    "scaling.varied": ("batch rule varies", "批量规则不一"),
    "scaling.seq_len": ("sequence {tokens}", "序列长 {tokens}"),
    "scaling.all": ("All rows: {what}.", "所有行：{what}。"),
    "scaling.relative": ("relative to {cards}", "相对于 {cards}"),
    "scaling.definition": (
        "Speedup is tokens/s over that of the base named above the rows; efficiency (eff.) is speedup x base / cards. "
        "Tokens are target tokens that carry loss, of the whole job.",
        "加速比为 tokens/s 与各组标题所注基准之比；效率 = 加速比 × 基准卡数 / 卡数。"
        "tokens 指整个任务中计入损失的目标 token。",
    ),
    "scaling.interval": (
        "Step time: median of the measured steps with its 95 % interval (block bootstrap).",
        "步时：实测各步的中位数及其 95 % 区间（分块自助法）。",
    ),
    "scaling.no_interval": (
        "Rows without an interval did not state one; that is not a claim of certainty.",
        "没有区间的行只是未给出区间，并不表示没有误差。",
    ),
    "scaling.memory_kind": ("Peak memory is {kinds}, the largest rank.", "峰值内存口径：{kinds}，取最大的进程。"),
    "memory.device": ("what the driver reports as used on the card", "驱动报告的整卡已用显存"),
    "memory.rss": ("the peak resident set of a rank's process", "进程的峰值常驻内存"),
    "memory.reserved": ("what PyTorch's allocator reserved", "PyTorch 分配器保留的显存"),
    "memory.allocated": ("what PyTorch's allocator had allocated", "PyTorch 分配器已分配的显存"),
    "memory.stated": ("as the imported file states it (peak_vram_gib)", "导入文件所给的值（peak_vram_gib）"),
    # cards in a sentence
    "cards.one": ("1 card", "1 张卡"),
    "cards.many": ("{count} cards", "{count} 张卡"),
    # costs
    "cost.title": ("Cost per epoch, as billed: {quote}", "每个 epoch 的费用（按账单）：{quote}"),
    "cost.pure_title": (
        "Cost per epoch, share of the rental used: {quote}",
        "每个 epoch 的费用（按实际用时折算）：{quote}",
    ),
    "cost.billion_title": (
        "Cost per billion tokens, as billed: {quote}",
        "每十亿 token 的费用（按账单）：{quote}",
    ),
    "cost.pure_billion_title": (
        "Cost per billion tokens, share of the rental used: {quote}",
        "每十亿 token 的费用（按实际用时折算）：{quote}",
    ),
    "cost.mode": ("mode", "模式"),
    "cost.cards": ("cards", "卡数"),
    "cost.time": ("time", "时间"),
    "cost.epoch": ("An epoch is {tokens} tokens.", "一个 epoch 为 {tokens} 个 token。"),
    "cost.no_epoch": (
        "The size of an epoch is not known (workload.epoch_tokens is not given and the records state no data set): "
        "costs are for a billion tokens.",
        "epoch 大小未知（未给出 workload.epoch_tokens，记录中也没有数据集大小）：费用按十亿 token 计。",
    ),
    "cost.ranges": (
        "Money in {currency}, low to high: low price and fast end of the throughput, high price and slow end.",
        "金额单位 {currency}，为低至高：低端取低价与较快吞吐量，高端取高价与较慢吞吐量。",
    ),
    "cost.billed": (
        "An epoch run as a job of its own; started billing units are paid whole.",
        "按单独跑一个 epoch 计；不足一个计费单位的按一个单位付。",
    ),
    "cost.pure": (
        "The same to the exact second, as where the rest of the rental is used too. Tiers and letters as above.",
        "按精确时长折算，适用于租期其余时间也在使用的情况。各档说明与字母含义同上表。",
    ),
    "cost.tier": ("{name}: {price} {currency} per {unit}{discount}", "{name}：每{unit} {price} {currency}{discount}"),
    "cost.discount": (", node discount x {discount} included", "，已含整机折扣 × {discount}"),
    "cost.tier_note": ("{name}: {remark}", "{name}：{remark}"),
    "cost.min_cards": (", from {count} cards", "，{count} 卡起租"),
    "cost.predicted": ("predicted, not measured", "预测值，非实测"),
    "unit.card_hour": ("card-hour", "卡时"),
    "unit.node_hour": ("node-hour", "机时"),
    "unit.card_month": ("card-month", "卡月"),
    "unit.node_month": ("node-month", "机月"),
    "unit.h": ("h", "小时"),
    "unit.min": ("min", "分钟"),
    "unit.s": ("s", "秒"),
    "unit.ms": ("ms", "毫秒"),
    # collectives
    "collectives.title": ("Collectives", "集合通信"),
    "collectives.size": ("size", "大小"),
    "collectives.count": ("count", "元素数"),
    "collectives.type": ("type", "类型"),
    "collectives.time": ("time", "时间"),
    "collectives.algbw": ("algbw", "algbw"),
    "collectives.busbw": ("busbw", "busbw"),
    "collectives.wrong": ("#wrong", "#错误"),
    "collectives.definition": (
        "algbw = size / time; busbw = algbw x a factor of the operation (all_reduce: 2(n-1)/n), as NCCL tests define "
        "them. GB/s in powers of ten.",
        "algbw = 大小 / 时间；busbw = algbw × 操作系数（all_reduce 为 2(n-1)/n），定义同 NCCL tests。GB/s 为十进制。",
    ),
    "collectives.call": ("call", "调用"),
    "collectives.smallest": ("smallest", "最小"),
    "collectives.latency": ("latency", "延迟"),
    "collectives.best": ("best busbw", "最高 busbw"),
    "collectives.at": ("at size", "对应大小"),
    "collectives.all_sizes": ("Every size is in the files of the report.", "所有大小见报告文件。"),
    "collectives.in_place": ("in place", "原地"),
    "collectives.out_of_place": ("out of place", "非原地"),
    "collectives.pattern": ("pattern {name}", "训练通信模式 {name}"),
    "collectives.not_measured": ("{what}: not measured: {why}", "{what}：未测：{why}"),
    "collectives.one_rank": (
        "One rank moves no data: its bus bandwidth of 0 is no fault.",
        "只有一个进程时没有数据传输：busbw 为 0 并非故障。",
    ),
    # matrix products
    "matmul.title": ("Matrix products", "矩阵乘法"),
    "matmul.shape": ("product", "乘积"),
    "matmul.role": ("role", "用途"),
    "matmul.size": ("m x n x k", "m x n x k"),
    "matmul.time": ("time", "时间"),
    "matmul.rate": ("rate", "速率"),
    "matmul.share": ("of peak", "占峰值"),
    "matmul.forward": ("forward", "前向"),
    "matmul.input_gradient": ("input gradient", "输入梯度"),
    "matmul.weight_gradient": ("weight gradient", "权重梯度"),
    "matmul.square": ("square", "方阵"),
    "matmul.definition": (
        "2 m n k FLOPs over the median time of the slowest rank, all ranks multiplying at once; 95 % intervals by "
        "block bootstrap.",
        "2 m n k 次浮点运算除以最慢进程的中位时间，所有进程同时计算；95 % 区间为分块自助法。",
    ),
    "matmul.fit": (
        "{dtype}: time = {launch} us + FLOPs / {rate} TFLOP/s, within {error} % in the median of {shapes} shapes.",
        "{dtype}：时间 = {launch} us + FLOPs / {rate} TFLOP/s，{shapes} 个形状的中位偏差 {error} %。",
    ),
    "matmul.own": (
        "{dtype}: the products of one micro-batch of the model together reach {rate} TFLOP/s.",
        "{dtype}：模型一个 micro-batch 的全部乘积合计达到 {rate} TFLOP/s。",
    ),
    "matmul.skipped": ("{what}: not measured: {why}", "{what}：未测：{why}"),
    # failures
    "failures.title": ("Not measured, and why", "未测得的单元及原因"),
    "failures.cell": ("cell", "单元"),
    "failures.reason": ("reason", "原因"),
    "failures.rank": ("rank {rank}: ", "rank {rank}："),
    "failures.none_given": ("no reason recorded", "没有记录原因"),
    # the decision
    "decision.title": ("Decision", "决策"),
    "decision.title_of": ("Decision: {what}", "决策：{what}"),
    "decision.role": ("option", "方案"),
    "decision.tier": ("tier", "档"),
    "decision.finish": ("done in", "完成用时"),
    "decision.total": ("total cost", "总费用"),
    "decision.per_epoch": ("per epoch", "每 epoch"),
    "decision.chosen": ("rent this", "推荐"),
    "decision.runner_up": ("next best", "次优"),
    "decision.fastest": ("fastest", "最快"),
    "decision.cheapest": ("cheapest", "最便宜"),
    "decision.measured": ("best measured", "最佳实测"),
    "decision.cheapest_in_time": ("cheapest in time", "按时最便宜"),
    "decision.fastest_in_budget": ("fastest in budget", "预算内最快"),
    "decision.one_card": ("one card", "单卡"),
    "decision.other_mode": ("other mode", "其他模式"),
    "decision.other_quote": ("other quote", "其他报价"),
    # against rules of thumb
    "bands.title": ("Against rules of thumb", "与经验法则对照"),
    "bands.model": ("model", "模型"),
    "bands.what": ("figure", "指标"),
    "bands.measured": ("measured", "实测"),
    "bands.band": ("rule", "经验值"),
    "bands.verdict": ("verdict", "结论"),
    "bands.speedup": ("speedup", "加速比"),
    "bands.efficiency": ("efficiency", "效率"),
    "bands.links": ("NVLink over PCIe", "NVLink 比 PCIe"),
    "bands.at_least": ("{low} or more", "{low} 以上"),
    "bands.inside": ("inside the band", "在区间内"),
    "bands.below": ("below", "低于"),
    "bands.above": ("above", "高于"),
    "bands.source": (
        "Rules of thumb: https://idctop.com/article/573547.html. They are no measurement and no promise.",
        "经验法则出自 https://idctop.com/article/573547.html，既非实测，也非承诺。",
    ),
    # repeats
    "repeats.title": ("Repeated cells", "重复测量"),
    "repeats.runs": ("runs", "次数"),
    "repeats.between": ("between runs", "各次之间"),
    "repeats.within": ("within a run", "单次之内"),
    "repeats.definition": (
        "Standard deviation over mean of the runs' throughput, beside that of the steps within a run.",
        "各次运行吞吐量的标准差与均值之比，以及单次运行内各步的同一比值。",
    ),
    # one mode against another
    "modes.title": ("Modes compared", "模式对比"),
    "modes.faster": ("faster", "较快"),
    "modes.slower": ("slower", "较慢"),
    "modes.ratio": ("ratio", "比值"),
    "modes.p": ("p", "p"),
    "modes.real_runs": ("real", "差异显著"),
    "modes.real_steps": ("real in these runs", "本次运行中显著"),
    "modes.chance_runs": ("may be chance", "可能是偶然"),
    "modes.chance_steps": ("may be chance", "可能是偶然"),
    "modes.unknown": ("not known", "无法判断"),
    "modes.definition": (
        "Ratio of mean throughputs at the same work and cards; p two-sided, corrected after Holm for the number of "
        "pairs. Without repeats it rests on the steps of single runs, which says nothing about another run.",
        "相同工作量与卡数下平均吞吐量之比；p 为双侧，并按比较次数做 Holm 校正。没有重复测量时只依据单次运行的各步，"
        "不能推及另一次运行。",
    ),
    # environment
    "environment.title": ("Environment", "环境"),
    "environment.field": ("field", "字段"),
    "environment.value": ("value", "取值"),
    "environment.cells": ("cells", "单元数"),
    "environment.device": ("device", "设备"),
    "environment.cores": ("cores", "CPU 核数"),
    "environment.driver": ("driver", "驱动"),
    "environment.interconnect": ("interconnect", "互联"),
    "environment.python": ("Python", "Python"),
    "environment.platform": ("platform", "平台"),
    "environment.git": ("cardscale commit", "cardscale 提交"),
    "environment.threads": ("threads per rank", "每进程线程数"),
    "environment.note": (
        "Where a field has several values, cells were measured under different conditions.",
        "同一字段有多个取值，说明各单元的测量条件不同。",
    ),
    # statuses
    "status.ok": ("ok", "正常"),
    "status.oom": ("oom", "显存不足"),
    "status.infeasible": ("infeasible", "放不下"),
    "status.failed": ("failed", "失败"),
    "status.timeout": ("timeout", "超时"),
    "status.interrupted": ("interrupted", "中断"),
    "status.predicted": ("predicted", "预测"),
    "status.imported": ("imported", "导入"),
    # rendering
    "latex.table": ("Table", "表"),
    "left_out": ("Left out at this width: {columns}.", "因宽度不足未显示：{columns}。"),
    "and": (" and ", "和"),
}
