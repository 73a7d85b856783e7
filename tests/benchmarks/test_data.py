"""The text as batches: packed, disjoint, the same for any number of ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.data import END_OF_TEXT, FIRST_BYTE, batch, byte_tokens, load, pack
from configs.errors import ConfigError
from configs.schema import Data


def test_bytes_are_tokens_and_documents_end() -> None:
    assert byte_tokens(["Aé", "b"]).tolist() == [
        *(FIRST_BYTE + byte for byte in (0x41, 0xC3, 0xA9)),
        END_OF_TEXT,
        FIRST_BYTE + 0x62,
        END_OF_TEXT,
    ]


def test_targets_are_the_inputs_moved_by_one_and_every_token_is_a_target_once() -> None:
    packed = pack(torch.arange(101), seq_len=10, seed=0)
    assert packed.target_tokens == 100
    targets = packed.rows[:, 1:].flatten()
    assert sorted(targets.tolist()) == list(range(1, 101))


def test_the_tail_that_fills_no_sequence_is_left_out() -> None:
    assert len(pack(torch.arange(105), seq_len=10, seed=0).rows) == 10


@pytest.mark.parametrize("dp", [1, 2, 4, 8])
def test_the_ranks_shares_are_disjoint_and_make_up_the_same_global_batch(dp: int) -> None:
    packed = pack(torch.arange(4001), seq_len=10, seed=1)
    shares = [batch(packed, step=3, global_batch=16, dp_rank=rank, dp=dp) for rank in range(dp)]
    assert torch.equal(torch.cat(shares), packed.rows[48:64])


def test_past_the_end_the_next_epoch_begins() -> None:
    packed = pack(torch.arange(101), seq_len=10, seed=0)
    assert torch.equal(batch(packed, step=2, global_batch=8, dp_rank=0, dp=1)[4:], packed.rows[[0, 1, 2, 3]])


def test_the_text_that_python_ships_is_real_and_long_enough() -> None:
    """pydoc_data.topics is some hundred thousand bytes of English in every supported Python."""
    assert load(Data(), seq_len=128).target_tokens > 300_000


def test_a_text_shorter_than_one_sequence_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("short")
    with pytest.raises(ConfigError, match="6 tokens are shorter than one sequence; seq_len is 128"):
        load(Data(text=str(tmp_path / "short.txt")), seq_len=128)


def test_a_text_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(ConfigError, match="data.text: .*latin.txt cannot be read"):
        load(Data(text=str(tmp_path / "latin.txt")), seq_len=2)
