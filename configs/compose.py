"""From overrides to a typed Config, through Hydra; and Hydra's errors as one line that names what is legal."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from configs.cell import from_dict
from configs.errors import ConfigError
from configs.schema import Config

CONFIG_DIR = str(Path(__file__).parent.resolve())
ROOT = "config"
# fields of the root that are one whole number
_NUMBERS = ("cards", "seq_len", "micro_batch", "global_batch", "repeat")


def register() -> None:
    """Make the schema known to Hydra. Safe to call again."""
    ConfigStore.instance().store(name="schema", node=_schema())


def _schema() -> DictConfig:
    """The schema as a node that can be merged into: OmegaConf makes a frozen dataclass read-only, at every depth."""
    schema: DictConfig = OmegaConf.structured(Config)
    _writable(schema)
    return schema


def _writable(node: DictConfig) -> None:
    OmegaConf.set_readonly(node, None)
    for _, child in node.items_ex(resolve=False):
        if isinstance(child, DictConfig):
            _writable(child)


def typed(config: DictConfig) -> Config:
    """The composed `config` as frozen dataclasses, without Hydra's own node. Raises ConfigError on an ill value."""
    try:
        content = OmegaConf.create({k: v for k, v in config.items_ex(resolve=False) if k != "hydra"})
        plain = OmegaConf.to_container(OmegaConf.merge(_schema(), content), resolve=True)
    except OmegaConfBaseException as error:
        raise explain(error, []) from None
    assert isinstance(plain, dict)
    return from_dict(Config, {str(key): value for key, value in plain.items()})


def compose_config(overrides: list[str]) -> Config:
    """Compose the tree with `overrides`, one value each; nothing is written. Raises ConfigError."""
    return compose_grid(overrides)[0]


def compose_grid(overrides: list[str], sweep: bool = False) -> list[Config]:
    """Every point of the grid that `overrides` and the preset's own grids span, in order, without repetition.

    A preset's grids are products of their own; what the command line says of a field replaces what they say. Sweeps on
    the command line are refused unless `sweep`. Raises ConfigError.
    """
    register()
    arguments = rewrite(overrides)
    _register_products(text for text in arguments if text.startswith("mode="))
    try:
        with initialize_config_dir(CONFIG_DIR, version_base="1.3"):
            parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
            parsed = parser.parse_overrides(arguments)
            swept = [override.is_sweep_override() for override in parsed]
            fixed = [text for text, is_swept in zip(arguments, swept, strict=True) if not is_swept]
            if len(fixed) < len(arguments) and not sweep:
                compose(ROOT, overrides=arguments)  # says which one is ambiguous
            whole = typed(compose(ROOT, overrides=fixed))
            if not whole.grids and len(fixed) == len(arguments):
                return [whole]
            points: dict[tuple[str, ...], None] = {}
            for grid in whole.grids or [{}]:
                block = [f"{key}={value}" for key, value in grid.items()]
                _register_products(text for text in block if text.startswith("mode="))
                for point in BasicSweeper.split_arguments(parser.parse_overrides([*block, *arguments]), None)[0]:
                    points[tuple(point)] = None
            return _composed(points, parser)
    except (HydraException, OmegaConfBaseException) as error:
        raise explain(error, arguments) from None


def _composed(points: Iterable[tuple[str, ...]], parser: OverridesParser) -> list[Config]:
    """Every point as a Config. Points that differ only in whole numbers at the root are composed once: that is slow.

    Where something refers to another field by interpolation, a number may matter elsewhere: each is composed then.
    """
    made: dict[tuple[str, ...], Config | None] = {}
    configs = []
    for point in points:
        numbers: dict[str, Any] = {}
        rest: list[str] = []
        for text, override in zip(point, parser.parse_overrides(list(point)), strict=True):
            value = override.value()
            if override.key_or_group in _NUMBERS and type(value) is int:
                numbers[override.key_or_group] = value
            else:
                rest.append(text)
        key = tuple(rest)
        if key not in made:
            composed = compose(ROOT, overrides=rest)
            fixed = "${" not in OmegaConf.to_yaml(composed, resolve=False)
            made[key] = typed(composed) if fixed else None
        base = made[key]
        configs.append(typed(compose(ROOT, overrides=list(point))) if base is None else replace(base, **numbers))
    return configs


def mode_by_grammar(name: str) -> dict[str, Any] | None:
    """The mode that a product's name spells, such as dp2_tp4 or fsdp_tp2_pp2; None if it is not of that grammar.

    Parts are dp, fsdp, ddp, tp, pp with their sizes; one may leave its size out and takes what is left of the cards.
    dp and fsdp shard parameters over the data-parallel ranks, ddp keeps a copy on each.
    """
    parts = name.split("_")
    found = [re.fullmatch(r"(dp|fsdp|ddp|tp|pp)(\d*)", part) for part in parts]
    if not all(found) or (len(parts) == 1 and not found[0][2]):  # type: ignore[index]
        return None
    sizes = {match[1]: int(match[2]) if match[2] else None for match in found if match}
    data = [kind for kind in ("dp", "fsdp", "ddp") if kind in sizes]
    if len(sizes) < len(parts) or len(data) > 1:
        return None
    return {
        "name": name,
        "dp": sizes[data[0]] if data else 1,
        "tp": sizes.get("tp", 1),
        "pp": sizes.get("pp", 1),
        "shard": "none" if data in ([], ["ddp"]) else "full",
    }


def _register_products(texts: Iterable[str]) -> None:
    """Make every product that `texts` name an option of the group `mode`."""
    for name in {word for text in texts for word in re.findall(r"[a-z0-9_]+", text)}:
        if "_" in name or name[-1].isdigit():
            mode = mode_by_grammar(name)
            if mode is not None:
                ConfigStore.instance().store(group="mode", name=name, node=mode)


def rewrite(overrides: Iterable[str]) -> list[str]:
    """The short names of the command line in Hydra's terms.

    `study=NAME` and `prices=A,B` name a folder and a list, where Hydra would take the groups of those names. Fields
    with keys of one's own (`cluster.env`, `machine.peak_tflops`, `model.config`) need no sign in front.
    """
    result = []
    for override in overrides:
        if match := re.fullmatch(r"study=(.*)", override):
            result.append(f"study_name={_quoted(match[1])}")
        elif match := re.fullmatch(r"prices=(.*)", override):
            names = [name for name in match[1].strip("[]").split(",") if name]
            result.append(f"price_sheets=[{','.join(map(_quoted, names))}]")
        elif match := re.fullmatch(r"(source|model\.path|data\.text|results_dir|out|a|b)=([^'\"].*)", override):
            result.append(f"{match[1]}={_quoted(match[2])}")
        elif match := re.fullmatch(r"machine=([\w,]+)", override):
            # a machine may be called by a bare number, which Hydra would not take for a name
            result.append("machine=" + ",".join(_quoted(n) if n.isdigit() else n for n in match[1].split(",")))
        elif _is_open_mapping(override.partition("=")[0].split(".")):
            result.append(f"++{override}")
        else:
            result.append(override)
    return result


def _is_open_mapping(path: list[str]) -> bool:
    """Whether `path` leads to, or into, a field whose keys are anybody's, which Hydra takes only if told."""
    for end in range(1, len(path) + 1):
        kind = _kind_at(path[: end - 1])
        hint = get_type_hints(kind).get(path[end - 1]) if kind is not None else None
        if get_origin(hint) is dict:
            return True
    return False


def _quoted(text: str) -> str:
    """A value that Hydra's grammar takes as one string, whatever stands in it."""
    text = text.strip().strip("'\"")
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def explain(error: Exception, overrides: list[str]) -> ConfigError:
    """Hydra's or OmegaConf's complaint as where, what, allowed."""
    text = str(error)
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException):
        text = f"{text}\n{cause}"
    # a group's option that does not exist: list those that do
    if match := re.search(r"Could not find '([^']+)/([^'/]+)'", text):
        return _unknown_option(match[1], match[2])
    if match := re.search(r"Could not override '([^']+)'", text):
        key = match[1]
        if "is not in struct" in text or "not in" in text or "No match in the defaults list" in text:
            return _unknown_field(key)
        return ConfigError(key, _reason(text))
    if match := re.search(r"full_key: (\S+)", text):
        key = match[1]
        if "not in '" in text or "is not in struct" in text:
            return _unknown_field(key)
        return ConfigError(key, _reason(text), _expected(key))
    if match := re.search(r"Ambiguous value for argument '([^']+)'", text):
        return ConfigError(match[1], "is a sweep", "-m runs it as one; name=[a,b] is a list; quotes make it one value")
    if "LexerNoViableAlt" in text or "mismatched input" in text or "extraneous input" in text:
        return ConfigError("override", " ".join(text.split("See https")[0].split()), "NAME=VALUE")
    return ConfigError("config", " ".join(text.split())[:300])


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    useful = [line for line in lines if not line.startswith(("full_key", "object_type", "Error merging", "reference"))]
    return (useful[-1] if useful else lines[0]).removeprefix("Value ")


def _unknown_option(group: str, option: str) -> ConfigError:
    folder = Path(CONFIG_DIR) / group
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    near = difflib.get_close_matches(option, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return ConfigError(group, f"{option!r} is unknown", f"{hint}known: {', '.join(known)}")


def _unknown_field(key: str) -> ConfigError:
    *path, name = key.split(".")
    known = _fields_at(path)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {'.'.join([*path, near[0]])}? " if near else ""
    place = f"fields of {'.'.join(path)}" if path else "fields"
    return ConfigError(key, "no such field", f"{hint}{place}: {', '.join(known)}" if known else "")


def _expected(key: str) -> str:
    *path, name = key.split(".")
    kind: Any = _kind_at(path)
    hint = get_type_hints(kind).get(name) if kind is not None else None
    return f"expected {getattr(hint, '__name__', str(hint).replace('typing.', ''))}" if hint else ""


def _kind_at(path: list[str]) -> Any:
    kind: Any = Config
    for step in path:
        if not is_dataclass(kind):
            return None
        kind = get_type_hints(kind).get(step)
    return kind if is_dataclass(kind) else None


def _fields_at(path: list[str]) -> list[str]:
    kind = _kind_at(path)
    return [] if kind is None else [field.name for field in fields(kind)]
