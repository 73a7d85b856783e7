"""Real text as training batches: tokenised, packed, shuffled by seed, and disjoint over the data-parallel ranks."""

from __future__ import annotations

import pydoc_data.topics
from dataclasses import dataclass
from pathlib import Path

import torch

from configs.errors import ConfigError
from configs.schema import Data

FIRST_BYTE = 8  # ids 0 to 7 are special; 0 ends a document
END_OF_TEXT = 0
_END_TOKENS = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>")


@dataclass(frozen=True)
class Packed:
    """Sequences of seq_len + 1 tokens: inputs are all but the last, targets all but the first; every target counts."""

    rows: torch.Tensor  # (sequences, seq_len + 1), int64

    @property
    def seq_len(self) -> int:
        return self.rows.shape[1] - 1

    @property
    def target_tokens(self) -> int:
        """Tokens that carry loss in one pass over the data set."""
        return self.rows.shape[0] * self.seq_len


def documents(data: Data) -> list[str]:
    """The texts. Raises ConfigError if the file cannot be read as UTF-8."""
    if data.text is None:
        return [text for _, text in sorted(pydoc_data.topics.topics.items())]
    try:
        return [Path(data.text).read_text(encoding="utf-8")]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("data.text", f"{data.text} cannot be read: {error}", "a UTF-8 text file") from None


def byte_tokens(texts: list[str]) -> torch.Tensor:
    """UTF-8 bytes as token ids, each document closed by END_OF_TEXT; shape (tokens,)."""
    stream = bytearray()
    ids = []
    for text in texts:
        stream = bytearray(text.encode("utf-8"))
        ids.append(torch.frombuffer(stream, dtype=torch.uint8).long() + FIRST_BYTE)
        ids.append(torch.tensor([END_OF_TEXT]))
    return torch.cat(ids)


def pack(tokens: torch.Tensor, seq_len: int, seed: int) -> Packed:
    """Cut the stream into sequences that overlap in one token, and shuffle them by `seed`.

    The tail that does not fill a sequence is left out. Raises ConfigError for a text shorter than one sequence.
    """
    count = (len(tokens) - 1) // seq_len
    if count < 1:
        raise ConfigError("data.text", f"{len(tokens)} tokens are shorter than one sequence", f"seq_len is {seq_len}")
    rows = tokens.unfold(0, seq_len + 1, seq_len)[:count]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return Packed(rows[order].contiguous())


def load(data: Data, seq_len: int, model_path: str | None = None) -> Packed:
    """The packed data set: in the model's own tokens where its folder holds a tokenizer, in bytes otherwise."""
    texts = documents(data)
    tokenizer = Path(model_path) / "tokenizer.json" if model_path else None
    tokens = model_tokens(texts, tokenizer) if tokenizer and tokenizer.exists() else byte_tokens(texts)
    return pack(tokens, seq_len, data.seed)


def model_tokens(texts: list[str], tokenizer: Path) -> torch.Tensor:
    """`texts` in the tokens of a tokenizer.json, each closed by the end-of-text token; shape (tokens,)."""
    from tokenizers import Tokenizer

    coder = Tokenizer.from_file(str(tokenizer))
    end = next((coder.token_to_id(t) for t in _END_TOKENS if coder.token_to_id(t) is not None), END_OF_TEXT)
    ids = [token for text in texts for token in (*coder.encode(text, add_special_tokens=False).ids, end)]
    return torch.tensor(ids, dtype=torch.int64)


def batch(packed: Packed, step: int, global_batch: int, dp_rank: int, dp: int) -> torch.Tensor:
    """Rows of optimizer step `step` for one data-parallel rank: (global_batch / dp, seq_len + 1).

    The global batch is the same rows in the same order for any dp; the ranks' shares are disjoint. Past the end of
    the data the next epoch begins with the same order.
    """
    share = global_batch // dp
    first = step * global_batch + dp_rank * share
    return packed.rows[torch.arange(first, first + share) % len(packed.rows)]
