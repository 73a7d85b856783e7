"""From a command's name and its words to the call that does it: flags, overrides, warnings, exit code."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from configs.compose import compose_grid
from configs.errors import choose
from configs.schema import Config
from launch.cli import COMMANDS

# command -> where its function is; `import` takes files beside its overrides
FUNCTIONS = {
    "run": "launch.run:run_command",
    "plan": "launch.plan:plan_command",
    "report": "launch.report:report_command",
    "predict": "launch.predict:predict_command",
    "decide": "launch.decide:decide_command",
    "guide": "launch.guide:guide_command",
    "doctor": "launch.doctor:doctor_command",
    "compare": "launch.compare:compare_command",
    "export": "launch.export:export_command",
}
FLAGS = ("-m", "--multirun", "--help", "-h", "--cfg", "--show")
SWEEPING = ("plan", "predict", "doctor")  # a grid costs nothing there, so it needs no flag


def run_named(name: str, words: list[str]) -> int:
    """Run command `name`; returns its exit code. Raises ConfigError for whatever is wrong with the input."""
    choose("command", name, COMMANDS)
    flags = [word for word in words if word.startswith("-")]
    for flag in flags:
        choose(f"cardscale {name}", flag, FLAGS)
    overrides = [word for word in words if not word.startswith("-")]
    if "--help" in flags or "-h" in flags:
        from launch.help import command_help

        print(command_help(name))
        return 0
    if name == "import":  # its kind and files are no overrides
        files = [word for word in overrides if "=" not in word or Path(word).is_file()]
        overrides = [word for word in overrides if word not in files]
    sweep = name in SWEEPING or "-m" in flags or "--multirun" in flags
    warnings.showwarning = _say_warning
    configs = compose_grid(overrides, sweep)
    if "--cfg" in flags or "--show" in flags:
        from launch.help import show

        print(show(configs))
        return 0
    console = Console(stderr=True)
    if name == "import":
        from launch.importers import import_command

        return import_command(files, configs[0], console, [word.partition("=")[0] for word in overrides])
    return _command(name)(configs, console)


def _command(name: str) -> Callable[[list[Config], Console], int]:
    """The function of a command; importing it is part of asking for it."""
    module, function = FUNCTIONS[name].split(":")
    found: Callable[[list[Config], Console], int] = getattr(importlib.import_module(module), function)
    return found


def _say_warning(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
    """Our own warnings are one line for people; those of libraries about their own code are not for them."""
    if issubclass(category, UserWarning) and not issubclass(category, (DeprecationWarning, FutureWarning)):
        print(f"warning: {message}", file=sys.stderr)
