"""Measure the cells of a study. A cell's end, whatever it is, is a record; the next one follows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from configs.cell import Cell
from launch.study.interrupts import Interrupts, Stopped
from launch.study.keeping import StudyUnwritable
from launch.study.order import in_order
from launch.study.progress import Progress
from launch.study.retry import RETRY, must_run
from launch.study.space import release
from launch.study.visits import TAKEN, Terms, Visits

__all__ = ["RETRY", "Summary", "Terms", "in_order", "must_run", "sweep"]


@dataclass(frozen=True)
class Summary:
    """How a sweep ended, in counts of cells. cut: ended by a signal. left: (label, why) of cells not come to."""

    measured: int
    skipped: int
    failed: int
    interrupted: bool
    left: tuple[tuple[str, str], ...] = ()
    cut: int = 0

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return 130
        return 1 if self.failed or self.left else 0


def sweep(
    study: Path, cells: list[Cell], terms: Terms, progress: Progress, interrupts: Interrupts | None = None
) -> Summary:
    """Measure what is missing of `cells` into `study`, within `terms`.

    Cells that another sweep is measuring are left for last and waited for. Never raises for what happens to a cell.
    """
    visits = Visits(study, in_order(cells), terms, progress, interrupts or Interrupts())
    queue, taken = list(visits.cells), []
    stopped, why = False, ""
    try:
        while queue and not why:
            reason = visits.visit(queue)
            if reason.startswith(TAKEN):
                progress.say(f"{queue[0].label} is {reason}: left for later")
                taken.append(queue.pop(0))
            else:
                why = reason
        while taken and not why:
            why = visits.visit(taken, wait=True)
    except Stopped as error:
        stopped, why = True, f"the launcher got {error}"
    except StudyUnwritable as error:
        why = str(error)
    except OSError as error:
        why = f"{study} cannot be written: {error.strerror or error}"
    finally:
        release(study)
    stopped = stopped or bool(visits.interrupts.pending)
    left = tuple((cell.label, why) for cell in [*queue, *taken])
    return Summary(visits.measured, visits.skipped, visits.failed, stopped, left, visits.cut)
