"""A measured cell at another number of cards: the axis of its mode that grows, and its batch under the same rule."""

from __future__ import annotations

from dataclasses import dataclass, replace

from analysis.steptime.communication import Batch
from configs.cell import Cell, check_micro_batches
from configs.layout import Layout, check_layout, resolve_layout
from configs.schema import Mode


@dataclass(frozen=True)
class Target:
    """A cell that was not run. micro_batch: sequences. notes: where its batch is not the one its rule asks for."""

    mode: Mode
    layout: Layout
    micro_batch: int
    micro_batches: int
    notes: tuple[str, ...]

    def batch(self, seq_len: int) -> Batch:
        return Batch(self.micro_batch, self.micro_batches, seq_len)


def open_axis(mode: Mode) -> Mode:
    """`mode` with the axis free that grows with the cards: its own in plain `tp` and `pp`, or else `dp`."""
    if mode.name == "tp":
        return replace(mode, tp=None)
    return replace(mode, pp=None) if mode.name == "pp" else replace(mode, dp=None)


def target_at(cell: Cell, cards: int) -> Target:
    """`cell` on `cards` cards. Raises ConfigError where its mode or model does not allow that count.

    A strong-scaling batch that no longer divides takes smaller micro-batches, and where even one sequence a rank is too
    many the global batch grows; the notes say which.
    """
    mode = open_axis(cell.mode)
    layout = resolve_layout(mode, cards)
    check_layout(mode, layout, cell.model.name, cell.shape)
    total = cell.global_batch // cell.cards * cards if cell.scaling == "weak" else cell.global_batch
    notes: list[str] = []
    if total % layout.dp:
        share = max(1, round(total / layout.dp))
        notes.append(f"global batch of {share * layout.dp} sequences: {total} do not share out")
    else:
        share = total // layout.dp
    # A pipeline that its schedule could not fill takes smaller micro-batches, and so more of them.
    most = min(cell.micro_batch, max(share // layout.pp, 1))
    micro_batch = max(size for size in range(1, most + 1) if share % size == 0)
    if micro_batch != cell.micro_batch:
        notes.append(f"micro-batch {micro_batch} instead of {cell.micro_batch}")
    if layout.pp > 1:
        check_micro_batches(mode, layout.pp, share // micro_batch, micro_batch * layout.dp)
    return Target(mode, layout, micro_batch, share // micro_batch, tuple(notes))
