"""Real text as training batches: tokenised, packed or padded, shuffled by seed, disjoint over data-parallel ranks."""

from __future__ import annotations

import json
import pydoc_data.topics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from configs.errors import ConfigError
from configs.schema import Data

FIRST_BYTE = 8  # ids 0 to 7 are special; 0 ends a document
END_OF_TEXT = 0
_END_TOKENS = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>")
PADDING = -100  # what cross-entropy leaves out


@dataclass(frozen=True)
class Sequences:
    """Rows of seq_len + 1 tokens: inputs are all but the last, targets all but the first; PADDING carries no loss."""

    rows: torch.Tensor  # (sequences, seq_len + 1), int64

    @property
    def seq_len(self) -> int:
        return self.rows.shape[1] - 1

    @cached_property
    def targets_of_row(self) -> torch.Tensor:
        """Tokens of each row that carry loss, shape (sequences,)."""
        return (self.rows[:, 1:] != PADDING).sum(dim=1)

    @cached_property
    def target_tokens(self) -> int:
        """Tokens that carry loss in one pass over the data set."""
        return int(self.targets_of_row.sum())


def documents(data: Data) -> list[str]:
    """The texts: a file is one, a .jsonl file one a line, under "text". Raises ConfigError if it cannot be read."""
    if data.text is None:
        return [text for _, text in sorted(pydoc_data.topics.topics.items())]
    try:
        content = Path(data.text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("data.text", f"{data.text} cannot be read: {error}", "a UTF-8 text file") from None
    if not data.text.endswith(".jsonl"):
        return [content]
    found = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            found.append(json.loads(line)["text"])
        except (ValueError, TypeError, KeyError):
            raise ConfigError(f"{data.text}:{number}", f"{line[:60]!r} has no text", '{"text": "..."} a line') from None
    return found


def byte_tokens(texts: Iterable[str]) -> list[torch.Tensor]:
    """UTF-8 bytes as token ids, one tensor a document, each closed by END_OF_TEXT."""
    return [
        torch.tensor([*(byte + FIRST_BYTE for byte in text.encode("utf-8")), END_OF_TEXT], dtype=torch.int64)
        for text in texts
    ]


def tokens(texts: list[str], model_path: str | None) -> list[torch.Tensor]:
    """Token ids of each document: by the tokenizer in the model's folder, or as bytes where there is none."""
    file = Path(model_path or "") / "tokenizer.json"
    if model_path is None or not file.exists():
        return byte_tokens(texts)
    from tokenizers import Tokenizer

    coder = Tokenizer.from_file(str(file))
    end = next((coder.token_to_id(t) for t in _END_TOKENS if coder.token_to_id(t) is not None), END_OF_TEXT)
    found = coder.encode_batch(texts, add_special_tokens=False)
    return [torch.tensor([*each.ids, end], dtype=torch.int64) for each in found]


def pack(ids: list[torch.Tensor], seq_len: int, seed: int) -> Sequences:
    """Cut the stream of documents into sequences that overlap in one token, and shuffle them by `seed`.

    The tail that does not fill a sequence is left out. Raises ConfigError for a text shorter than one sequence.
    """
    stream = torch.cat(ids)
    count = (len(stream) - 1) // seq_len
    if count < 1:
        raise ConfigError("data.text", f"{len(stream)} tokens are shorter than one sequence", f"seq_len is {seq_len}")
    return _shuffled(stream.unfold(0, seq_len + 1, seq_len)[:count], seed)


def pad(ids: list[torch.Tensor], seq_len: int, seed: int) -> Sequences:
    """Each document in sequences of its own, the last one filled with PADDING; shuffled by `seed`."""
    rows = []
    for document in ids:
        for first in range(0, len(document) - 1, seq_len):
            piece = document[first : first + seq_len + 1]
            rows.append(torch.nn.functional.pad(piece, (0, seq_len + 1 - len(piece)), value=PADDING))
    if not rows:
        raise ConfigError("data.text", "holds no two tokens in a row", "a text")
    return _shuffled(torch.stack(rows), seed)


def _shuffled(rows: torch.Tensor, seed: int) -> Sequences:
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    return Sequences(rows[order].contiguous())


def load(data: Data, seq_len: int, model_path: str | None = None) -> Sequences:
    """The data set as sequences, packed or padded."""
    ids = tokens(documents(data), model_path)
    return (pack if data.packing else pad)(ids, seq_len, data.seed)


def rows_of_step(sequences: Sequences, step: int, global_batch: int) -> torch.Tensor:
    """Indices of the global batch of optimizer step `step`. Past the end the next epoch begins, in the same order."""
    first = step * global_batch
    return torch.arange(first, first + global_batch) % len(sequences.rows)


def batch(sequences: Sequences, step: int, global_batch: int, dp_rank: int, dp: int) -> torch.Tensor:
    """Rows of optimizer step `step` for one data-parallel rank: (global_batch / dp, seq_len + 1).

    The global batch is the same rows in the same order for any dp; the ranks' shares are disjoint and, with padding,
    may hold different numbers of targets.
    """
    share = global_batch // dp
    return sequences.rows[rows_of_step(sequences, step, global_batch)[dp_rank * share : (dp_rank + 1) * share]]


def targets_of_step(sequences: Sequences, step: int, global_batch: int) -> int:
    """Tokens of the whole global batch of optimizer step `step` that carry loss; every rank finds the same."""
    return int(sequences.targets_of_row[rows_of_step(sequences, step, global_batch)].sum())
