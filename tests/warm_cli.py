"""The console script without the price of its imports: a server that has them already forks once for every call.

Each call is still a process of its own, with its own folder, environment, standard streams and exit code; only the
modules are there from the start. Started by `WarmCli`; as a program, it is the server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]


class WarmCli:
    """`call(words, cwd, environment)` is what running `cardscale WORDS` there gives."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(HOME), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def call(self, words: list[str], cwd: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        assert self._server.stdin is not None and self._server.stdout is not None
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            streams = [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (out, err)]
            request = {"words": words, "cwd": str(cwd), "environment": dict(environment), "streams": streams}
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            code = int(self._server.stdout.readline())
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess(["cardscale", *words], code, *texts)

    def close(self) -> None:
        self._server.stdin.close()  # type: ignore[union-attr]
        self._server.wait(timeout=60)


def serve() -> dict[str, object] | None:
    """Fork for every request that standard input brings; returns the request in the child, None at the end."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            request: dict[str, object] = json.loads(line)
            return request
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


def become(request: dict[str, object]) -> None:
    """Take on the caller's streams, folder, environment and words."""
    for number, path in zip((1, 2), request["streams"], strict=True):  # type: ignore[call-overload]
        stream = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(stream, number)
        os.close(stream)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    sys.argv = ["cardscale", *request["words"]]  # type: ignore[misc]


if __name__ == "__main__":
    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_pdf
    import matplotlib.backends.backend_svg
    import matplotlib.font_manager  # noqa: F401
    import plotly.graph_objects  # noqa: F401

    import launch.commands
    import launch.compare
    import launch.decide
    import launch.export
    import launch.guide
    import launch.plan
    import launch.predict
    import launch.report  # noqa: F401
    from launch.cli import main

    if (asked := serve()) is not None:
        become(asked)
        main()
