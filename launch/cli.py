"""The console script: `cardscale <command> [Hydra overrides]`. Imports a command's code only when it is asked for."""

from __future__ import annotations

import sys

COMMANDS = {
    "run": "measure one cell, or with -m a grid: cardscale run -m mode=ddp,tp cards=1,2,4,8",
    "plan": "does it fit, and if not, what makes it fit: cardscale plan model=llama2_7b machine=a100_80g cards=1,8",
    "predict": "throughput at counts that were not measured: cardscale predict study=demo cards=16,32,64",
    "report": "a study, or a measurement CSV, as tables, figures and a page: cardscale report study=demo",
    "decide": "how many cards, in which mode, at which tier: cardscale decide study=demo workload.deadline_hours=24",
    "doctor": "what this machine is and what would go wrong on it: cardscale doctor machine=h100_80g cards=8",
    "guide": "the three-step test, one command at a time: cardscale guide study=NAME",
    "compare": "two studies side by side, and which differences are real: cardscale compare a=before b=after",
    "import": "nccl-tests, hf-trainer or measurements into a study: cardscale import nccl-tests FILE [study=NAME]",
    "export": "a study for other tools: cardscale export study=demo to=pytest-benchmark out=demo.json",
}

HELP = """cardscale measures how LLM fine-tuning scales over cards, and what that costs.

usage: cardscale <command> [NAME=VALUE ...]

commands:
{commands}

cardscale <command> --help lists what a command's overrides can be; presets: +study=demo, +study=scaling_7b.
exit codes: 0 all measured; 1 some cell failed; 2 wrong input; 130 interrupted."""


def main() -> None:
    raise SystemExit(run_cli(sys.argv[1:]))


def run_cli(arguments: list[str]) -> int:
    """Run one command; returns the exit code. Whatever is wrong with the input is one line on standard error."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP.format(commands="\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())))
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        from importlib.metadata import version

        print(version("cardscale"))
        return 0
    from configs.errors import ConfigError

    try:
        from launch.commands import run_named

        return run_named(arguments[0], arguments[1:])
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0  # the reader of our output has left, as `head` does


if __name__ == "__main__":
    main()
