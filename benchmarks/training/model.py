"""Build a causal language model on the meta device and fill it shard by shard, the same full weights in every mode."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from benchmarks.training.lora import INTO, OUT_OF, base_path
from configs.errors import ConfigError
from configs.schema import Model

# (parameter's name in the full model, full shape, dtype, device) -> the full parameter
Source = Callable[[str, torch.Size, torch.dtype, torch.device], torch.Tensor]

# Fields that some architectures keep once per layer: a stage keeps those of its own layers.
_PER_LAYER_FIELDS = ("layer_types", "mlp_layer_types")


def transformers_config(model: Model) -> PretrainedConfig:
    """`model`'s transformers config. Raises ConfigError for a model type that this transformers does not know."""
    fields = {key: value for key, value in model.config.items() if key != "model_type"}
    try:
        return AutoConfig.for_model(model.config["model_type"], **fields)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"model {model.name}: config", str(error).split("\n")[0]) from None


def build_on_meta(config: PretrainedConfig, layers: range, dtype: torch.dtype, attention: str) -> PreTrainedModel:
    """The model with only `layers` of its decoder, parameters on the meta device, other buffers real."""
    part = copy.deepcopy(config)
    part.num_hidden_layers = len(layers)
    for field in _PER_LAYER_FIELDS:
        if getattr(config, field, None) is not None:
            setattr(part, field, [getattr(config, field)[i] for i in layers])
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(part, dtype=dtype, attn_implementation=attention)
    if part.tie_word_embeddings:
        model.get_output_embeddings().weight = model.get_input_embeddings().weight
    model.config.use_cache = False
    return model


def full_name(name: str, first_layer: int, tied: bool = False) -> str:
    """The name in the full model of parameter `name` of a stage whose layers start at `first_layer`.

    A tied head on a stage of its own is the embedding by another name; a layer with an adapter keeps its name.
    """
    name = base_path(name)
    if tied and name == "lm_head.weight":
        return "model.embed_tokens.weight"
    return re.sub(r"(?<=\.layers\.)\d+(?=\.)", lambda number: str(int(number[0]) + first_layer), name, count=1)


def seeded_source(model: nn.Module, seed: int, std: float) -> Source:
    """Random weights that depend on the parameter's name and the seed alone, so that every layout starts equal.

    Linear and embedding weights are normal(0, std), biases 0, norm weights 1, as transformers initialises them;
    an adapter's way in is uniform within 1 / sqrt(width), its way out 0, as PEFT does.
    """
    kinds = {
        _any_layer(base_path(f"{prefix}.{name}")): type(module)
        for prefix, module in model.named_modules()
        for name, _ in module.named_parameters(recurse=False)
    }

    def draw(name: str, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        if name.endswith("bias") or OUT_OF in name:
            return torch.zeros(shape, dtype=dtype, device=device)
        if not issubclass(kinds[_any_layer(name)], (nn.Linear, nn.Embedding)):
            return torch.ones(shape, dtype=dtype, device=device)
        digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
        generator = torch.Generator(device=device).manual_seed(int.from_bytes(digest[:7], "little"))
        if INTO in name:
            bound = shape[1] ** -0.5
            return torch.empty(shape, dtype=torch.float32, device=device).uniform_(-bound, bound, generator=generator)
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32).mul_(std).to(dtype)

    return draw


def _any_layer(name: str) -> str:
    return re.sub(r"\.\d+\.", ".*.", name)


def ties(model: nn.Module) -> list[list[tuple[nn.Module, str]]]:
    """Groups of (module, attribute) that hold one and the same parameter."""
    holders: dict[int, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            holders.setdefault(id(parameter), []).append((module, name))
    return [group for group in holders.values() if len(group) > 1]


def retie(groups: list[list[tuple[nn.Module, str]]]) -> None:
    """Make every attribute of a group hold its first one's parameter again."""
    for (module, name), *others in groups:
        for other, other_name in others:
            setattr(other, other_name, getattr(module, name))


@torch.no_grad()
def materialise(
    module: nn.Module, config: PretrainedConfig, source: Source, device: torch.device, first_layer: int = 0
) -> None:
    """Give the meta parameters of `module` (a model, or a stage around one) storage and fill each local shard.

    At most one full parameter exists at a time. Buffers are rebuilt from each module's own config.
    """
    groups = ties(module)
    buffers = rebuilt_buffers(module)
    module.to_empty(device=device)
    retie(groups)
    for owner, name, value in buffers:
        owner.register_buffer(name, value.to(device), persistent=False)
    inner = "" if isinstance(module, PreTrainedModel) else "model."
    for name, parameter in module.named_parameters():
        name = full_name(name.removeprefix(inner), first_layer, tied=config.tie_word_embeddings)
        full = source(name, parameter.shape, parameter.dtype, device)
        local_part(parameter).copy_(local_shard(full, parameter))


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank holds of `tensor`: itself, or a DTensor's shard, sharing its storage."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The full value of `tensor`, gathered where it is a DTensor."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def local_shard(full: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """The part of `full` that this rank holds of `parameter`, which may be a DTensor on any mesh.

    Tensor parallelism shards first and data parallelism shards the result, so the mesh axes are taken from the last
    to the first; each cuts as torch.chunk does, trailing ranks may hold nothing.
    """
    if not isinstance(parameter, DTensor):
        return full
    mesh = parameter.device_mesh
    part = full
    for axis in reversed(range(mesh.ndim)):
        placement = parameter.placements[axis]
        if placement.is_replicate():
            continue
        chunks = part.chunk(mesh.size(axis), dim=placement.dim)
        index = mesh.get_local_rank(axis)
        part = chunks[index] if index < len(chunks) else part.narrow(placement.dim, 0, 0)
    return part


def rebuilt_buffers(model: nn.Module) -> list[tuple[nn.Module, str, torch.Tensor]]:
    """Buffers that are computed rather than loaded (rotary frequencies): made afresh by each module's own class."""
    rebuilt = []
    for module in _buffer_owners(model):
        with torch.device("cpu"):
            fresh = type(module)(module.config)
        rebuilt += [(module, name, value) for name, value in fresh.named_buffers(recurse=False)]
    return rebuilt


def _buffer_owners(model: nn.Module) -> Iterator[nn.Module]:
    for path, module in model.named_modules():
        if not any(True for _ in module.named_buffers(recurse=False)):
            continue
        if not hasattr(module, "config"):
            raise ConfigError("model", f"{path} holds buffers that its config does not give", "another architecture")
        yield module
