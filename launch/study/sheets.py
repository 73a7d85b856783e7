"""Reads price sheets: by name from configs/prices, or a YAML or CSV file by its path from the invocation directory."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import yaml

import configs
from analysis.prices import Quote, parse_quote
from analysis.prices.quotes import read_quotes
from configs.errors import ConfigError, choose

PRICES = Path(configs.__file__).parent / "prices"
DEFAULT_SHEET = "jiangsu"  # an example, where no sheet is named; whoever uses it says so
YAML_SUFFIXES = (".yaml", ".yml")


def sheet_names() -> list[str]:
    """The names of the sheets that come with cardscale."""
    return sorted(path.stem for path in PRICES.glob("*.yaml"))


def load_sheets(names: Iterable[str], folder: Path | None = None, today: date | None = None) -> list[Quote]:
    """The quotes of the named sheets, in order, each sheet once; of the example sheet where none is named.

    A name with a path separator or a suffix is a file, relative to `folder` (None: the working directory). A YAML file
    is one quote, a CSV file one or several. `today` is what the sheets' age is judged against (None: the date of the
    call). Raises ConfigError naming the file, and the field or row, of whatever is wrong.
    """
    wanted = [part.strip() for name in names for part in str(name).split(",") if part.strip()]
    wanted = wanted or [DEFAULT_SHEET]
    quotes = [
        quote for name in dict.fromkeys(wanted) for quote in _load(name, folder or Path.cwd(), today or date.today())
    ]
    seen: set[str] = set()
    for quote in quotes:
        if quote.name in seen:
            raise ConfigError("prices", f"two quotes are called {quote.name!r}", "a `name` of its own for each sheet")
        seen.add(quote.name)
    return quotes


def _load(name: str, folder: Path, today: date) -> list[Quote]:
    if Path(name).name == name and not Path(name).suffix:
        path = PRICES / f"{choose('prices', name, sheet_names())}.yaml"
        return [parse_quote(_read_yaml(path, f"prices/{path.name}"), f"prices/{path.name}", name, today=today)]
    path = folder / Path(name).expanduser()
    if path.suffix.lower() in YAML_SUFFIXES:
        return [parse_quote(_read_yaml(path, name), name, path.stem, today=today)]
    if path.suffix.lower() == ".csv":
        sheets = read_quotes(_read(path, name), name, path.stem)
        return [parse_quote(sheet.data, name, sheet.name, sheet.places, today) for sheet in sheets]
    raise ConfigError("prices", f"{name} is not a price sheet", "a .yaml or .csv file, or one of the known names")


class _StrictLoader(yaml.SafeLoader):
    """YAML with a field written twice refused; the plain loader silently keeps the last one."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    mapping: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in mapping:
            raise yaml.MarkedYAMLError(problem=f"field {key!r} is there twice", problem_mark=key_node.start_mark)
        mapping[key] = loader.construct_object(value_node, deep=True)
    return mapping


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _read(path: Path, source: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        known = ", ".join(sheet_names())
        raise ConfigError("prices", f"{source} does not exist", f"a file, or one of: {known}") from None
    except OSError as error:
        raise ConfigError("prices", f"{source} cannot be read: {error.strerror}") from None


def _read_yaml(path: Path, source: str) -> Any:
    content = _read(path, source)
    try:
        return yaml.load(content, Loader=_StrictLoader)  # a subclass of the safe loader
    except yaml.MarkedYAMLError as error:
        line = f": line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{source}{line}", f"cannot be read as YAML: {error.problem}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError(source, f"cannot be read as YAML: {error}") from None
