"""The sentences of a decision's reasons: each in English and Chinese, filled in by `analysis.decision.reasons`."""

from __future__ import annotations

SENTENCES: dict[str, tuple[str, str]] = {
    "rent": (
        "Rent {option}: {epochs} in {finish} for {cost} (an epoch by itself: {per_epoch}){risks}.",
        "建议租用 {option}：{epochs}用时 {finish}，费用 {cost}（单跑一个 epoch {per_epoch}）{risks}。",
    ),
    "may_miss": (
        "; it may miss the deadline of {deadline}: {slow} at the slow end",
        "；可能赶不上期限 {deadline}：按低端计算需要 {slow}",
    ),
    "may_exceed": (
        "; it may exceed the budget of {budget}: {dear} at the high end",
        "；可能超出预算 {budget}：按高端计算需要 {dear}",
    ),
    "memory_unknown": (
        "; its memory was not measured, so it may not fit within {share} of the card",
        "；没有测过显存，不一定能放进整卡的 {share}",
    ),
    "memory_tight": (
        "Its memory is tight: the peak is {share} of the card.",
        "显存紧张：峰值为整卡的 {share}。",
    ),
    "one_enough": (
        "One card is enough: {why}.",
        "单卡就够：{why}。",
    ),
    "one_meets": (
        "it ends after {finish} for {cost} and meets every constraint",
        "用时 {finish}，费用 {cost}，满足全部约束",
    ),
    "one_also": (
        "One card would be enough too: {option} ends after {finish} for {cost}; {chosen} {difference}.",
        "单卡其实也够：{option} 用时 {finish}，费用 {cost}；相比之下 {chosen} {difference}。",
    ),
    "one_not": (
        "One card is not enough: the best of it, {option}, ends after {finish} for {cost} and {why}.",
        "单卡不够：单卡最好的方案 {option} 用时 {finish}，费用 {cost}，{why}。",
    ),
    "one_maybe": (
        "One card may be enough: {option} is expected to end after {finish} for {cost}{risks}.",
        "单卡可能就够：{option} 预计用时 {finish}，费用 {cost}{risks}。",
    ),
    "one_late": ("misses the deadline by {late}", "超出期限 {late}"),
    "one_dear": ("is {over} over the budget", "超出预算 {over}"),
    "one_unmeasured": (
        "One card was {status}: it does not hold the job.",
        "单卡结果为 {status}：放不下这个任务。",
    ),
    "deadline": (
        "The deadline of {deadline} leaves {slack} to spare, counted at the slow end of the throughput.",
        "期限 {deadline}，按吞吐量低端计算仍有 {slack} 余量。",
    ),
    "budget": (
        "The budget of {budget} leaves {slack}, counted at the high end of the price.",
        "预算 {budget}，按价格高端计算还剩 {slack}。",
    ),
    "ideal": (
        "{work} of {base} work in {deadline} are {ideal} cards if scaling were perfect.",
        "{base}的工作量 {work}，要在 {deadline} 内完成，理想情况需要 {ideal} 张卡。",
    ),
    "real": (
        "At the {efficiency} efficiency of {basis} that is {cards}, margin included.",
        "按{basis}的效率 {efficiency} 计算，含余量需要 {cards}。",
    ),
    "real_beyond": (
        "At the {efficiency} efficiency of {basis} that would be {cards}; beyond {most} nothing was measured, and "
        "efficiency falls where a job leaves its server.",
        "按{basis}的效率 {efficiency} 计算需要 {cards}；但超过 {most} 没有实测，跨服务器后效率还会下降。",
    ),
    "rule": ("the published rule of thumb for 4 data-parallel cards", "公开经验值（4 卡数据并行）"),
    "seen": ("{mode} on {cards} ({how})", " {cards} {mode}（{how}）"),
    "idle": (
        "{idle} of the {rented} rented cards stay idle and are billed.",
        "所租 {rented} 张卡中有 {idle} 张闲置，照样计费。",
    ),
    "predicted": (
        "Its throughput was not measured: measure this count for a few minutes before renting it for the job.",
        "该吞吐量并非实测：正式租用前请先用几分钟实测这个卡数。",
    ),
    # what is assumed, as a part of the first sentence
    "assumed": ("; assumed: {what}.", "；其中假设：{what}。"),
    "epoch_data_set": (
        "an epoch is the measured data set of {tokens} tokens (workload.epoch_tokens is not stated)",
        "一个 epoch 即实测数据集的 {tokens} 个 token（未给出 workload.epoch_tokens）",
    ),
    "epoch_billion": (
        "an epoch is {tokens} tokens (workload.epoch_tokens is not stated)",
        "一个 epoch 为 {tokens} 个 token（未给出 workload.epoch_tokens）",
    ),
    "default_sheet": (
        "the prices are those of the example sheet {sheet} (prices= is not stated)",
        "价格取自示例报价单 {sheet}（未给出 prices=）",
    ),
    "unnamed_card": (
        "the card that was measured, which is not named, is the quote's {machine}",
        "测量数据未注明卡型，按报价的 {machine} 计",
    ),
    "unknown_card": (
        "the card that was measured, {device}, is the quote's {machine}",
        "实测的卡 {device} 即报价的 {machine}",
    ),
    "other_card": (
        "{machine} prices for another card: measured on {device}, the quote is for {machine}, an illustration and not "
        "advice",
        "吞吐量在 {device} 上测得，而报价是 {machine}：仅作演示，不能作为建议",
    ),
    "runner_up": (
        "Next best: {option}; it {difference}.",
        "次优：{option}；{difference}。",
    ),
    "quote_order": (
        "By the card-hour {other} is cheaper ({other_rate} against {rate}), but this job costs {other_cost} there.",
        "按每卡时单价 {other} 更便宜（{other_rate} 对 {rate}），但这个任务在那里要花 {other_cost}。",
    ),
    "break_even": (
        "{quote}: {monthly} beats {hourly} from {low} h of use a month at the low ends of the prices, {high} h at "
        "the high ends (a month is {month} h); this job uses {used}.",
        "{quote}：按价格低端，每月用满 {low} 小时起 {monthly} 比 {hourly} 划算，按高端为 {high} 小时"
        "（一个月按 {month} 小时计）；本任务使用 {used}。",
    ),
    "stable": (
        "The choice is the same at both ends of the prices and of the throughput.",
        "无论价格和吞吐量取高端还是低端，选择都不变。",
    ),
    "flip": (
        "With {assumption} the choice would be {option} ({cost}).",
        "若{assumption}，则会选 {option}（{cost}）。",
    ),
    "flip_none": (
        "With {assumption} nothing meets the constraints.",
        "若{assumption}，则没有方案满足约束。",
    ),
    "price_flip": (
        "{option} would be cheaper than this choice at its dearest if {tier} cost less than {price} ({quoted} quoted).",
        "若 {tier} 的价格低于 {price}（报价 {quoted}），{option} 会比本方案的最高费用更便宜。",
    ),
    "no_candidate": (
        "Nothing can be priced: {why}.",
        "没有可计价的方案：{why}。",
    ),
    "no_deadline": (
        "Nothing meets the deadline of {deadline}: what comes closest, {option}, is expected to take "
        "{finish}{between}, {late} too long.",
        "没有方案能赶上期限 {deadline}：最接近的 {option} 预计需要 {finish}{between}，超出 {late}。",
    ),
    "no_budget": (
        "Nothing fits the budget of {budget}: what comes closest, {option}, is expected to cost {cost}{between}, "
        "{over} too much.",
        "没有方案符合预算 {budget}：最接近的 {option} 预计要花 {cost}{between}，超出 {over}。",
    ),
    "no_memory": (
        "What comes closest, {option}, needs {share} of the card; {limit} is allowed.",
        "最接近的 {option} 需要整卡的 {share}，上限为 {limit}。",
    ),
    "closest_measured": (
        "Of what was measured, {option} comes closest: {finish} for {cost}.",
        "实测方案中最接近的是 {option}：用时 {finish}，费用 {cost}。",
    ),
    "change": ("What would have to change: {ways}.", "需要改变的条件：{ways}。"),
    "change_deadline": ("a deadline of {limit}{sure}", "期限放宽到 {limit}{sure}"),
    "change_throughput": ("{factor} times its throughput", "吞吐量提高到 {factor} 倍"),
    "change_epochs": ("{fewer} instead of {epochs}", "只跑 {fewer}而不是 {epochs} 个"),
    "change_budget": ("a budget of {limit}{sure}", "预算提高到 {limit}{sure}"),
    "change_price": ("{price} for a {unit} ({quoted} quoted)", "每 {unit} 价格降到 {price}（报价 {quoted}）"),
    "change_either": (
        "What would have to change: a budget of {budget}; or a deadline of {deadline}.",
        "需要改变的条件：预算提高到 {budget}；或期限放宽到 {deadline}。",
    ),
    "to_be_sure": (" ({sure} to be sure)", "（稳妥起见 {sure}）"),
    "no_both": (
        "Deadline and budget can each be met, but not together: in time, the cheapest is {in_time} for {cost}; within "
        "the budget, the fastest is {in_budget}, which takes {finish}.",
        "期限与预算各自可以满足，但不能同时满足：按时完成的最便宜方案是 {in_time}，费用 {cost}；"
        "预算内最快的是 {in_budget}，用时 {finish}。",
    ),
}
# The corners of analysis.decision.sensitivity, in their order.
ASSUMPTIONS_ZH = (
    "所有价格取低端、吞吐量取高端",
    "所有价格和吞吐量都取低端",
    "所有价格和吞吐量都取高端",
    "所有价格取高端、吞吐量取低端",
)
