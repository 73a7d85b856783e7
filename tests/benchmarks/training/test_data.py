"""The text as batches: packed, disjoint, the same for any number of ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.training.data import (
    END_OF_TEXT,
    FIRST_BYTE,
    PADDING,
    batch,
    byte_tokens,
    load,
    pack,
    pad,
    targets_of_step,
)
from configs.errors import ConfigError
from configs.schema import Data


def test_bytes_are_tokens_and_documents_end() -> None:
    assert [document.tolist() for document in byte_tokens(["Aé", "b"])] == [
        [*(FIRST_BYTE + byte for byte in (0x41, 0xC3, 0xA9)), END_OF_TEXT],
        [FIRST_BYTE + 0x62, END_OF_TEXT],
    ]


def test_targets_are_the_inputs_moved_by_one_and_every_token_is_a_target_once() -> None:
    packed = pack([torch.arange(101)], seq_len=10, seed=0)
    assert packed.target_tokens == 100
    targets = packed.rows[:, 1:].flatten()
    assert sorted(targets.tolist()) == list(range(1, 101))


def test_the_tail_that_fills_no_sequence_is_left_out() -> None:
    assert len(pack([torch.arange(105)], seq_len=10, seed=0).rows) == 10


@pytest.mark.parametrize("dp", [1, 2, 4, 8])
def test_the_ranks_shares_are_disjoint_and_make_up_the_same_global_batch(dp: int) -> None:
    packed = pack([torch.arange(4001)], seq_len=10, seed=1)
    shares = [batch(packed, step=3, global_batch=16, dp_rank=rank, dp=dp) for rank in range(dp)]
    assert torch.equal(torch.cat(shares), packed.rows[48:64])


def test_past_the_end_the_next_epoch_begins() -> None:
    packed = pack([torch.arange(101)], seq_len=10, seed=0)
    assert torch.equal(batch(packed, step=2, global_batch=8, dp_rank=0, dp=1)[4:], packed.rows[[0, 1, 2, 3]])


def test_the_text_that_python_ships_is_real_and_long_enough() -> None:
    """pydoc_data.topics is some hundred thousand bytes of English in every supported Python."""
    assert load(Data(), 128).target_tokens > 300_000


def test_a_text_shorter_than_one_sequence_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("short")
    with pytest.raises(ConfigError, match="6 tokens are shorter than one sequence; seq_len is 128"):
        load(Data(text=str(tmp_path / "short.txt")), 128)


def test_a_text_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(ConfigError, match="data.text: .*latin.txt cannot be read"):
        load(Data(text=str(tmp_path / "latin.txt")), 2)


def test_a_padded_document_keeps_its_own_sequences_and_loses_no_target() -> None:
    """Documents of 1, 5 and 16 tokens at seq_len 8: nothing to predict, 4 targets, 8 + 7 targets."""
    padded = pad([torch.arange(1), torch.arange(5), torch.arange(16)], seq_len=8, seed=0)
    assert sorted(padded.targets_of_row.tolist()) == [4, 7, 8]
    assert padded.target_tokens == 19
    assert padded.rows.shape == (3, 9)


def test_padding_stands_after_the_text_and_is_no_target() -> None:
    row = pad([torch.arange(5)], seq_len=8, seed=0).rows[0].tolist()
    assert row == [0, 1, 2, 3, 4, PADDING, PADDING, PADDING, PADDING]


def test_a_steps_targets_are_those_of_its_whole_global_batch() -> None:
    padded = pad([torch.arange(n) for n in (3, 5, 9, 2)], seq_len=8, seed=0)
    assert targets_of_step(padded, 0, 4) == 2 + 4 + 8 + 1
    assert sum(targets_of_step(padded, step, 1) for step in range(4)) == 15
