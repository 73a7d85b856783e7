"""What a command's overrides can be, read from the schema and the tree, so that the help cannot fall behind."""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from configs.compose import CONFIG_DIR
from configs.schema import Config
from launch.cli import COMMANDS


def command_help(name: str) -> str:
    """The help text of one command: its purpose, the groups with their options, the fields with their defaults."""
    lines = [f"cardscale {name}: {COMMANDS[name]}", "", "groups (NAME=OPTION):"]
    for folder in sorted(Path(CONFIG_DIR).iterdir()):
        options = sorted(path.stem for path in folder.glob("*.yaml")) if folder.is_dir() else []
        if options:
            plus = "+" if folder.name == "study" else ""
            lines.append(f"  {plus + folder.name:<12} {', '.join(options)}")
    lines += ["", "fields (NAME=VALUE):", *_field_lines(Config, "")]
    lines += ["", "-m sweeps over comma-separated values; --cfg prints what the words compose to and stops."]
    return "\n".join(lines)


def _field_lines(kind: Any, prefix: str) -> list[str]:
    hints = get_type_hints(kind)
    default = kind()
    lines = []
    for field in fields(kind):
        if is_dataclass(hints[field.name]):
            lines += _field_lines(hints[field.name], f"{prefix}{field.name}.")
        else:
            value = getattr(default, field.name)
            lines.append(f"  {prefix}{field.name:<{max(40 - len(prefix), 1)}} {'null' if value is None else value}")
    return lines


def show(configs: list[Config]) -> str:
    """The composed configs as YAML documents."""
    return "---\n".join(yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True) for config in configs)
