"""A cell: one point of a study, resolved and checked, as the plain data that ranks receive."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from configs.engines import check_engine
from configs.errors import ConfigError, choose
from configs.layout import SCHEDULES, Layout, ModelShape, check_layout, model_shape, named, resolve_layout
from configs.schema import Benchmark, Cluster, Config, Data, Machine, Measure, Mode, Model, Recipe
from configs.weights import weight_files

BENCHMARKS = ("finetune", "collectives", "storage", "pairs", "matmul")
INITS = ("random", "pretrained")
METHODS = ("full", "lora")
OPTIMIZERS = ("adamw", "adamw8bit", "sgd", "adafactor")
STATE_DTYPES = ("fp32", "bf16")
PRECISIONS = ("fp32", "bf16", "bf16_pure", "fp16")
CHECKPOINTING = ("none", "selective", "full")
ATTENTIONS = ("eager", "sdpa", "flash_attention_2")
T = TypeVar("T")


@dataclass(frozen=True)
class Cell:
    """One point of a study: benchmark x workload x mode x cards. Everything is decided; nothing is left `auto`."""

    benchmark: Benchmark
    model: Model
    mode: Mode
    recipe: Recipe
    data: Data
    machine: Machine
    measure: Measure
    cluster: Cluster
    cards: int
    seq_len: int
    micro_batch: int
    grad_accum: int
    global_batch: int  # sequences in one optimizer step, over all ranks
    scaling: str
    repeat: int

    @property
    def layout(self) -> Layout:
        return Layout(self.mode.dp or 1, self.mode.tp or 1, self.mode.pp or 1)

    @property
    def shape(self) -> ModelShape:
        return model_shape(self.model.name, self.model.config)

    @property
    def global_batch_tokens(self) -> int:
        return self.global_batch * self.seq_len

    @property
    def label(self) -> str:
        """How people call this cell, also the readable part of its folder's name."""
        if self.benchmark.name != "finetune":
            return f"{self.benchmark.name}-{self.cards}"
        tail = f"-r{self.repeat}" if self.repeat else ""
        return f"{self.model.name}-{self.mode.name}-{self.cards}{tail}"

    @property
    def cell_id(self) -> str:
        """Stable name: readable slug and a hash of what matters for the measurement. Independent of the clock."""
        content = asdict(self)
        for bound in (
            "start_timeout_s",
            "warmup_timeout_s",
            "step_timeout_s",
        ):  # how long we wait does not change what we measure
            del content["measure"][bound]
        content["cluster"] = {key: content["cluster"][key] for key in ("nodes", "threads_per_rank", "env")}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
        slug = re.sub(r"[^A-Za-z0-9._-]+", "_", self.label)[:60]
        return f"{slug}-{digest}"


def resolve(config: Config) -> Cell:
    """Check `config` and settle everything it leaves open. Raises ConfigError before anything starts."""
    name = config.benchmark.name
    if ":" not in name:  # "module:function" names a benchmark of one's own
        choose("benchmark", name, BENCHMARKS)
    model = load_model(config.model)
    layout = resolve_layout(config.mode, config.cards)
    if name != "finetune":
        layout = Layout(config.cards, 1, 1)
    else:
        check_layout(config.mode, layout, model.name, model_shape(model.name, model.config))
        check_recipe(config.recipe, config.mode, layout, config.machine)
        check_engine(config.mode, layout, config.recipe, config.machine)
    check_measure(config.measure)
    if config.cards % config.cluster.nodes:
        raise ConfigError("cluster.nodes", f"{config.cards} cards do not share out over {config.cluster.nodes} nodes")
    if config.cluster.threads_per_rank < 1:
        raise ConfigError("cluster.threads_per_rank", f"{config.cluster.threads_per_rank} is not a positive number")
    if name != "finetune" and isinstance(config.micro_batch, int):  # no optimizer step: any number of ranks will do
        config = replace(config, global_batch=config.micro_batch, scaling="weak")
    global_batch, micro_batch, grad_accum = batch_sizes(config, layout)
    shape = model_shape(model.name, model.config)
    if config.seq_len < 2 or (shape.max_positions and config.seq_len > shape.max_positions):
        raise ConfigError("seq_len", f"{config.seq_len} is out of range", f"2 to {shape.max_positions} ({model.name})")
    return Cell(
        benchmark=config.benchmark,
        model=model,
        mode=named(config.mode, layout),
        recipe=config.recipe,
        data=config.data,
        machine=config.machine,
        measure=config.measure,
        cluster=config.cluster,
        cards=config.cards,
        seq_len=config.seq_len,
        micro_batch=micro_batch,
        grad_accum=grad_accum,
        global_batch=global_batch,
        scaling=config.scaling,
        repeat=config.repeat,
    )


def batch_sizes(config: Config, layout: Layout) -> tuple[int, int, int]:
    """(global_batch, micro_batch, grad_accum), with global_batch == micro_batch x grad_accum x dp, exactly.

    Under strong scaling the global batch is the same at every card count and the accumulation follows; under weak
    scaling the batch grows with the cards. A batch that does not divide is refused, never truncated.
    """
    choose("scaling", config.scaling, ("strong", "weak"))
    if not isinstance(config.micro_batch, int) or config.micro_batch < 1:
        raise ConfigError("micro_batch", f"{config.micro_batch!r} is not a batch size", "a positive whole number")
    if config.global_batch < 1:
        raise ConfigError("global_batch", f"{config.global_batch} is not a batch size", "a positive whole number")
    total = config.global_batch * (config.cards if config.scaling == "weak" else 1)
    share = config.micro_batch * layout.dp
    if total % share:
        nearest = sorted({max(total // share, 1) * share, (total // share + 1) * share})
        raise ConfigError(
            "global_batch",
            f"{total} sequences do not share out over dp={layout.dp} ranks x micro_batch={config.micro_batch}",
            f"nearest: {' or '.join(map(str, nearest))}",
        )
    grad_accum = total // share
    if layout.pp > 1:
        check_micro_batches(config.mode, layout.pp, grad_accum, share)
    return total, config.micro_batch, grad_accum


def check_micro_batches(mode: Mode, pp: int, micro_batches: int, share: int) -> None:
    """Refuse a pipeline that its schedule cannot fill: too few micro-batches, or not a multiple of the stages."""
    where, under = f"mode={mode.name}", f"under schedule {mode.schedule}"
    if mode.schedule != "gpipe" and micro_batches < pp:
        raise ConfigError(
            where,
            f"{micro_batches} micro-batches for pp={pp} stages {under}",
            f"at least {pp}: raise global_batch to {share * pp} or lower micro_batch",
        )
    if SCHEDULES.get(mode.schedule, 1) > 1 and micro_batches % pp:
        nearest = sorted({max(micro_batches // pp, 1) * pp, (micro_batches // pp + 1) * pp})
        raise ConfigError(
            where,
            f"{micro_batches} micro-batches are no multiple of pp={pp} {under}",
            f"nearest: global_batch={' or '.join(str(share * n) for n in nearest)}",
        )


def check_recipe(recipe: Recipe, mode: Mode, layout: Layout, machine: Machine) -> None:
    """Refuse words that name nothing, numbers out of range, and what the machine or the mode cannot do."""
    for field, legal in (
        ("method", METHODS),
        ("optimizer", OPTIMIZERS),
        ("state_dtype", STATE_DTYPES),
        ("precision", PRECISIONS),
        ("checkpointing", CHECKPOINTING),
        ("attention", ATTENTIONS),
    ):
        choose(f"recipe.{field}", getattr(recipe, field), legal)
    if recipe.learning_rate < 0:
        raise ConfigError("recipe.learning_rate", f"{recipe.learning_rate} is negative", "0 or more")
    if recipe.clip_norm is not None and recipe.clip_norm <= 0:
        raise ConfigError("recipe.clip_norm", f"{recipe.clip_norm} is not a norm", "a positive number, or null")
    if recipe.method == "lora" and recipe.lora_rank < 1:
        raise ConfigError("recipe.lora_rank", f"{recipe.lora_rank} is not a rank", "a positive whole number")
    if machine.device == "cpu":
        for field, value, instead in (
            ("optimizer", "adamw8bit", "adamw with state_dtype=bf16"),
            ("attention", "flash_attention_2", "sdpa or eager"),
        ):
            if getattr(recipe, field) == value:
                raise ConfigError(f"recipe.{field}", f"{value} needs a GPU (machine {machine.name})", instead)
    if recipe.optimizer == "adafactor" and recipe.state_dtype != "fp32":
        raise ConfigError("recipe.state_dtype", "adafactor keeps its states in fp32", "fp32")


def check_measure(measure: Measure) -> None:
    if measure.max_steps < 1 or measure.min_steps < 1 or measure.min_steps > measure.max_steps:
        raise ConfigError(
            "measure.max_steps", f"{measure.max_steps} (min_steps {measure.min_steps})", "1 <= min_steps <= max_steps"
        )
    if measure.max_seconds <= 0:
        raise ConfigError("measure.max_seconds", f"{measure.max_seconds} is not a positive time")


def load_model(model: Model) -> Model:
    """`model` with its config read from `path` when one is given. Raises ConfigError if it holds none."""
    if model.path is None:
        if choose("model.init", model.init, INITS) == "pretrained":
            raise ConfigError("model.init", "'pretrained' needs the weights", "model.path=FOLDER that holds them")
        if "model_type" not in model.config:
            raise ConfigError(f"model {model.name}", "has no config.model_type", "a transformers model type")
        return model
    folder = Path(model.path).expanduser().resolve()
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError("model.path", f"{folder} has no config.json", "a folder in Hugging Face format") from None
    except (OSError, ValueError) as error:
        raise ConfigError("model.path", f"{file} cannot be read: {error}") from None
    if choose("model.init", model.init, INITS) == "pretrained":
        weight_files(folder)
    name = model.name if model.name != "tiny" else folder.name
    return Model(name=name, path=str(folder), init=model.init, config=config)


def to_dict(cell: Cell) -> dict[str, Any]:
    """`cell` as JSON-able data."""
    return asdict(cell)


def from_dict(kind: type[T], data: Mapping[str, Any], where: str = "") -> T:
    """Build the dataclass `kind` (nested ones too) from plain data. Raises ConfigError on an unknown field."""
    hints = get_type_hints(kind)
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    for key in data:
        choose(where or "field", str(key), known)
    return kind(**{key: _build(hints[key], value, f"{where}.{key}".lstrip(".")) for key, value in data.items()})


def _build(hint: Any, value: Any, where: str) -> Any:
    if isinstance(hint, type) and is_dataclass(hint):
        return from_dict(hint, value, where)
    return value
