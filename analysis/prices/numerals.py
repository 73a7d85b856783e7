"""Reads one number as people type it into spreadsheets and refuses to guess: full-width digits, signs, separators.

`1.234` and `1,234` can each be a thousand or a fraction; such a cell is an error unless its column shows which.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from configs.errors import ConfigError

# What a sign can stand for, ISO 4217. The longer signs are looked for first.
CURRENCY_SIGNS: dict[str, tuple[str, ...]] = {
    "人民币": ("CNY",),
    "RMB": ("CNY",),
    "US$": ("USD",),
    "HK$": ("HKD",),
    "美元": ("USD",),
    "欧元": ("EUR",),
    "港币": ("HKD",),
    "元": ("CNY",),
    "¥": ("CNY", "JPY"),
    "$": ("USD", "AUD", "CAD", "HKD", "NZD", "SGD", "TWD"),
    "€": ("EUR",),
    "£": ("GBP",),
    "₩": ("KRW",),
    "₹": ("INR",),
}
UNKNOWN = ("", "-", "--", "—", "–", "/", "n/a", "na", "nan", "null", "none", "tbd", "?", "on request", "面议", "询价")
_RANGE = re.compile(r"^(?P<low>.*\d.*?)\s*(?:-|~|–|—|至|到|\bto\b|\.\.)\s*(?P<high>\D*\d.*)$")
_PLAIN = re.compile(r"[+-]?\d+")
_DASHES = str.maketrans({"−": "-", "‐": "-", "‑": "-", "〜": "~"})


@dataclass(frozen=True)
class Numeral:
    """One number as typed: its digits, its decimal mark where that is certain, and the currencies its sign allows."""

    text: str
    mark: str | None  # "." or "," where the cell itself shows it; None for a whole number or an ambiguous one
    ambiguous: bool
    currencies: tuple[str, ...] = ()
    scale: int = 1  # 万 is ten thousand

    def value(self, mark: str | None = None) -> float:
        """The number, with `mark` as the decimal mark where the cell alone does not show it."""
        mark = self.mark or mark
        digits = re.sub(r"[ '_]", "", self.text)
        for separator in {".", ","} - {mark}:
            digits = digits.replace(separator, "")
        return float(digits.replace(",", ".")) * self.scale


def tidy(text: str) -> str:
    """Full-width forms to ASCII, odd spaces to plain ones, line breaks and control characters to spaces."""
    folded = unicodedata.normalize("NFKC", text).translate(_DASHES)
    return " ".join("".join(" " if unicodedata.category(c).startswith("C") else c for c in folded).split())


def is_unknown(text: str) -> bool:
    """Whether the cell says that there is no number: blank, n/a, 面议 (to be negotiated)."""
    return tidy(text).lower() in UNKNOWN


def read_numeral(text: str, where: str) -> Numeral:
    """Read one number. Raises ConfigError naming `where` if it is none; an ambiguous one is returned marked so."""
    bare, currencies = _without_currency(tidy(text))
    scale = 1
    if bare.endswith("万"):
        bare, scale = bare[:-1].strip(), 10_000
    bare = re.sub(r"(?<=[+-]) ", "", bare)
    groups = re.fullmatch(r"[+-]?\d{1,3}(?:[ '_]\d{3})+(?P<rest>[.,]\d+)?", bare)
    if groups:
        rest = groups["rest"] or ""
        return Numeral(bare, rest[:1] or None, False, currencies, scale)
    if _PLAIN.fullmatch(bare):
        return Numeral(bare, None, False, currencies, scale)
    if not re.fullmatch(r"[+-]?[\d.,]*\d[\d.,]*", bare):
        raise ConfigError(where, f"{text!r} is not a number", "digits with at most one decimal mark, such as 1234.56")
    mark, ambiguous = _decimal_mark(bare.lstrip("+-"), text, where)
    return Numeral(bare, mark, ambiguous, currencies, scale)


def _decimal_mark(digits: str, text: str, where: str) -> tuple[str | None, bool]:
    """(decimal mark or None, whether it could be read two ways) of digits with points and commas."""
    last = max(digits.rfind("."), digits.rfind(","))
    mark, other = digits[last], "," if digits[last] == "." else "."
    if other in digits:  # 1.234,56: the last one is the decimal mark, the rest must be groups of three
        if digits.count(mark) == 1 and re.fullmatch(rf"\d{{1,3}}(?:[{other}]\d{{3}})+", digits[:last]):
            return mark, False
    elif digits.count(mark) > 1:
        if re.fullmatch(rf"\d{{1,3}}(?:[{mark}]\d{{3}})+", digits):
            return other, False
    else:
        whole, fraction = digits.split(mark)
        if len(fraction) == 3 and 1 <= len(whole) <= 3 and whole.strip("0"):
            return None, True
        if fraction or whole:
            return mark, False
    raise ConfigError(where, f"{text!r} has its separators in odd places", "a number such as 1234.56 or 1.234,56")


def read_range(text: str, where: str) -> tuple[Numeral, Numeral]:
    """Read `20`, `20-35`, `20~35` or `20 至 35`: the two ends, the same one twice for a single number."""
    plain = tidy(text)
    both = _RANGE.match(plain)
    if both:
        low, high = read_numeral(both["low"], where), read_numeral(both["high"], where)
        if low.scale == 1 and high.scale != 1 and low.value(".") < high.value(".") / high.scale:
            low = Numeral(low.text, low.mark, low.ambiguous, low.currencies, high.scale)  # 1-1.2万 counts both in 万
        return low, high
    single = read_numeral(plain, where)
    return single, single


def column_mark(numerals: Iterable[Numeral]) -> str | None:
    """The decimal mark that the clear cells of a column agree on; None where they show none or contradict."""
    marks = {n.mark for n in numerals if n.mark}
    return marks.pop() if len(marks) == 1 else None


def settle(numeral: Numeral, where: str, mark: str | None = None) -> float:
    """The value of `numeral`. Raises ConfigError where it is ambiguous and its column does not show which."""
    if numeral.ambiguous and mark is None:
        other = ",." if "." in numeral.text else ".,"
        raise ConfigError(
            where,
            f"{numeral.text!r} can be read two ways: {numeral.value(other[1]):g} or {numeral.value(other[0]):g}",
            "write it without a thousands separator, or with two decimals",
        )
    return numeral.value(mark)


def _without_currency(text: str) -> tuple[str, tuple[str, ...]]:
    """(the text without its currency sign or code, the currencies that can mean)."""
    for sign, codes in CURRENCY_SIGNS.items():
        if text.upper().startswith(sign):
            return text[len(sign) :].strip(), codes
        if text.upper().endswith(sign):
            return text[: -len(sign)].strip(), codes
    code = re.fullmatch(r"(?:(?P<before>[A-Z]{3}) )?(?P<number>.*?)(?: ?(?P<after>[A-Z]{3}))?", text)
    if code and (code["before"] or code["after"]):
        return code["number"].strip(), (code["before"] or code["after"],)
    return text, ()
