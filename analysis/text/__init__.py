"""Every string of a report in English and Chinese, and the remarks of the analysis said in either."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from analysis.text.compare import COMPARE
from analysis.text.figures import FIGURES
from analysis.text.methods import METHODS
from analysis.text.page import PAGE
from analysis.text.remarks import REMARKS
from analysis.text.report import REPORT
from configs.errors import choose

LANGUAGES = ("en", "zh")
Say = Callable[..., str]
CATALOGUE: Mapping[str, tuple[str, str]] = {**REPORT, **FIGURES, **PAGE, **METHODS, **COMPARE}


def sayer(lang: str) -> Say:
    """say(key, **values) in the language `lang`, its values filled in. Raises ConfigError for another language."""
    place = LANGUAGES.index(choose("lang", lang, LANGUAGES))

    def say(key: str, **values: object) -> str:
        return CATALOGUE[key][place].format(**values)

    return say


def remark(text: str, lang: str) -> str:
    """A remark of the analysis (English, built from a template) in `lang`; one that no template gives is left as is."""
    if lang == "en":
        return text
    for pattern, translated in _patterns():
        if found := pattern.fullmatch(text):
            return translated.format(**found.groupdict())
    return text


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """The English templates as patterns, whose {names} are groups, beside the Chinese ones."""
    return [(re.compile(_as_pattern(english)), chinese) for english, chinese in REMARKS]


def _as_pattern(template: str) -> str:
    parts = re.split(r"\{(\w+)\}", template)
    return "".join(f"(?P<{part}>.+?)" if i % 2 else re.escape(part) for i, part in enumerate(parts))
