"""Every option of one group of the tree as dataclasses, read without Hydra: for what compares options by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import yaml

from configs.cell import from_dict
from configs.errors import ConfigError

CONFIGS = Path(__file__).parent
T = TypeVar("T")


def load_group(kind: type[T], folder: Path | None = None) -> dict[str, T]:
    """The options of a group by the name of their file, from `folder` instead where it is given.

    Raises ConfigError on a file that is no `kind`.
    """
    group = kind.__name__.lower()
    folder = folder or CONFIGS / group
    options = {}
    for file in sorted(folder.glob("*.yaml")):
        where = f"{group}/{file.name}"
        try:
            content = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise ConfigError(where, f"cannot be read: {' '.join(str(error).split())}") from None
        if not isinstance(content, dict):
            raise ConfigError(where, f"is not a mapping of a {group}'s fields")
        options[file.stem] = from_dict(kind, content, where)
    return options
