"""What people write in a sheet of quotes, in English or Chinese: column names, units, dates, and what each means."""

from __future__ import annotations

import re
from datetime import date

from analysis.prices.numerals import CURRENCY_SIGNS, tidy
from configs.errors import ConfigError

# field -> how columns are called. Compared without case, spaces, underscores and what stands in brackets.
HEADERS: dict[str, tuple[str, ...]] = {
    "name": ("tier", "name", "plan", "tiername", "名称", "套餐", "档位", "方案"),
    "provider": ("provider", "vendor", "supplier", "供应商", "服务商", "厂商", "平台", "机房"),
    "region": ("region", "location", "地区", "区域", "地域"),
    "currency": ("currency", "币种", "货币"),
    "date": ("date", "quotedate", "日期", "报价日期"),
    "machine": ("machine", "gpu", "card", "gpumodel", "机型", "显卡", "卡型", "gpu型号", "型号", "显卡型号"),
    "hours_per_month": ("hourspermonth", "每月小时数"),
    "unit": ("unit", "priceunit", "单位", "计价单位", "计费单位", "计费方式"),
    "price": ("price", "unitprice", "价格", "单价", "报价"),
    "price_low": ("pricelow", "low", "minprice", "最低价", "最低价格", "低价"),
    "price_high": ("pricehigh", "high", "maxprice", "最高价", "最高价格", "高价"),
    "discount": ("discount", "折扣"),
    "discount_low": ("discountlow", "最低折扣"),
    "discount_high": ("discounthigh", "最高折扣"),
    "free": ("free", "免费"),
    "min_cards": ("mincards", "mingpus", "最少卡数", "起租卡数"),
    "max_cards": ("maxcards", "maxgpus", "最多卡数", "可用卡数"),
    "cards_per_node": ("cardspernode", "gpuspernode", "每节点卡数", "单机卡数", "每机卡数"),
    "billing_unit_hours": ("billingunithours", "billingunit", "计费粒度", "计费粒度小时"),
    "minimum_hours": ("minimumhours", "minimumterm", "最短租期", "最短小时数"),
    "interconnect": ("interconnect", "links", "link", "互联", "互联方式", "卡间互联", "卡间互联方式"),
    "storage_price_gb_month": ("storagepricegbmonth", "storageprice", "存储单价", "存储价格"),
    "read_gbps": ("readgbps", "storageread", "读速", "读速度", "存储读速度"),
    "write_gbps": ("writegbps", "storagewrite", "写速", "写速度", "存储写速度"),
    "egress_price_gb": ("egresspricegb", "egressprice", "流量单价", "流出流量单价"),
    "setup_hours": ("setuphours", "调试小时", "部署小时"),
    "interruptions_per_hour": ("interruptionsperhour", "每小时中断次数"),
    "notes": ("notes", "note", "remarks", "备注", "说明"),
}
_FIELD_OF = {alias: field for field, aliases in HEADERS.items() for alias in aliases}
_BRACKETS = re.compile(r"[(\[【](?P<inside>[^)\]】]*)[)\]】]")
_NODE = re.compile(r"nodes?|servers?|instances?|整机|节点|服务器|实例|台|机")
_CARD = re.compile(r"cards?|gpus?|卡")
_HOUR = re.compile(r"hours?|hourly|hrs?|小时|时|\bh\b")
_MONTH = re.compile(r"months?|monthly|月|\bmo\b")
_OTHER_TIME = re.compile(r"days?|daily|weeks?|weekly|years?|yearly|annual|minutes?|seconds?|天|日|周|年|分钟|秒")


def field_of(header: str) -> str | None:
    """The field that a column is for, or None where its name is not known."""
    bare = _BRACKETS.sub("", tidy(header).lower())
    return _FIELD_OF.get(re.sub(r"[\s_\-./:]+", "", bare))


def in_brackets(header: str) -> str:
    """What a header says in brackets: `单价(元/卡时)` gives `元/卡时`."""
    found = _BRACKETS.search(tidy(header))
    return found["inside"].strip() if found else ""


def unit_of(text: str) -> str | None:
    """`GPU-hour`, `元/卡时`, `整机·月` as one of the four units; None unless thing and period are both clear."""
    words = re.sub(r"[_\-/·.]+", " ", tidy(text).lower())
    hour, month = _HOUR.search(words), _MONTH.search(words)
    if bool(hour) == bool(month) or _OTHER_TIME.search(words):
        return None
    thing = "node" if _NODE.search(words) else "card" if _CARD.search(words) else None  # an 8-card node is a node
    return f"{thing}_{'hour' if hour else 'month'}" if thing else None


def currency_of(text: str) -> tuple[str, ...]:
    """The currencies that a sign, a name or a code in `text` can mean; empty where it holds none."""
    plain = tidy(text).upper()
    for sign, codes in CURRENCY_SIGNS.items():
        if sign in plain:
            return codes
    found = [code for code in re.findall(r"\b[A-Z]{3}\b", plain) if code not in ("GPU", "PER", "HRS")]
    return (found[0],) if found else ()


def date_of(text: str, where: str) -> date:
    """A date as spreadsheets write it. Raises ConfigError where day and month cannot be told apart."""
    plain = tidy(text)
    found = re.fullmatch(r"(?P<y>\d{4})\s*[-/.年]\s*(?P<m>\d{1,2})\s*[-/.月]\s*(?P<d>\d{1,2})\s*日?(?: .*)?", plain)
    found = found or re.fullmatch(r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)", plain)
    found = found or re.fullmatch(r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})", plain)
    if found:
        year, month, day = (int(found[part]) for part in "ymd")
    elif slashed := re.fullmatch(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})", plain):
        first, second, year = (int(part) for part in slashed.groups())
        if first <= 12 and second <= 12 and first != second:
            raise ConfigError(where, f"{text!r} can be two dates", "year-month-day, such as 2026-01-31")
        month, day = (second, first) if first > 12 else (first, second)
    else:
        raise ConfigError(where, f"{text!r} is not a date", "year-month-day, such as 2026-01-31")
    try:
        return date(year, month, day)
    except ValueError:
        raise ConfigError(where, f"{text!r} is not a date of the calendar") from None
