"""The typed schema of the Hydra tree: one frozen dataclass a group. Plain data; Hydra itself is not imported here.

Fields are strings where the choice is open to a registry; `configs.cell` checks their values and names the legal ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional, Union


@dataclass(frozen=True)
class Model:
    """A Hugging Face causal language model: its own config.json as data, or a folder that holds one."""

    name: str = "tiny"
    path: Optional[str] = None  # folder with config.json (and safetensors, for init=pretrained); offline
    init: str = "random"  # random: seeded by parameter name, no download; pretrained: streamed from safetensors
    config: dict[str, Any] = field(default_factory=dict)  # transformers config fields, model_type included


@dataclass(frozen=True)
class Mode:
    """How one training step is spread over the ranks. dp x tp x pp is the world size."""

    name: str = "ddp"
    engine: str = "torch"
    dp: Optional[int] = None  # None: what is left of the world size
    tp: Optional[int] = 1
    pp: Optional[int] = 1
    shard: str = "none"  # what data parallelism shards: none | full (parameters, gradients, optimizer states)
    zero_stage: int = 0
    schedule: str = "1f1b"  # gpipe | 1f1b | interleaved | zero_bubble
    reshard_after_forward: bool = True
    sequence_parallel: bool = False
    loss_parallel: bool = False
    offload: str = "none"  # none | optimizer | all: what ZeRO keeps in host memory
    replicate: int = 1  # hybrid sharding: how many copies of a fully sharded group


@dataclass(frozen=True)
class Recipe:
    """What is trained, by which optimizer, in which precision."""

    name: str = "full"
    method: str = "full"  # full | lora
    optimizer: str = "adamw"  # adamw | adamw8bit | sgd | adafactor
    state_dtype: str = "fp32"  # fp32 | bf16
    precision: str = "fp32"  # fp32 | bf16 | bf16_pure | fp16
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    clip_norm: Optional[float] = 1.0
    checkpointing: str = "none"  # none | selective | full
    compile: bool = False
    attention: str = "sdpa"  # eager | sdpa | flash_attention_2
    lora_rank: int = 16
    lora_alpha: int = 32
    lora_targets: list[str] = field(default_factory=lambda: ["q_proj", "k_proj", "v_proj", "o_proj"])


@dataclass(frozen=True)
class Data:
    """Where the tokens come from. Sequences are packed unless `packing` is off."""

    text: Optional[str] = None  # a UTF-8 file; None: pydoc_data.topics, the English text every Python ships
    packing: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Measure:
    """When a measurement is good enough, and what it may cost at most."""

    min_steps: int = 5
    max_steps: int = 50
    max_seconds: float = 60.0
    rel_ci: float = 0.01  # stop when the 95 % interval of the median step is this narrow, relative to the median
    warmup_steps: int = 2  # the least; warm-up ends when the step time is steady
    max_warmup_steps: int = 10
    meters: bool = True  # off: no progress, no profiled steps; what they cost is the difference
    profile_steps: int = 2  # steps under the profiler after the timed ones, for the communication shares
    start_timeout_s: float = 600.0
    warmup_timeout_s: float = 600.0  # a first step may compile or tune kernels
    step_timeout_s: float = 300.0


@dataclass(frozen=True)
class Collectives:
    """Sizes and operations of `benchmark=collectives`. Sizes that do not fit into memory are left out and said so."""

    ops: list[str] = field(default_factory=lambda: ["all_reduce"])
    min_bytes: int = 1024
    max_bytes: int = 4 * 1024 * 1024
    factor: int = 4
    step_bytes: Optional[int] = None  # sizes by addition instead of by factor
    dtypes: list[str] = field(default_factory=lambda: ["fp32"])  # fp32 | bf16 | fp16
    warmup_iters: int = 3
    iters: int = 20
    max_seconds_per_size: float = 5.0  # fewer iterations where a call is slow; a row says how many it had
    in_place: bool = True
    out_of_place: bool = True
    patterns: list[str] = field(default_factory=list)  # ddp_buckets | fsdp_layer | tp_activation, from the model config
    bucket_mib: float = 25.0  # DDP's default bucket_cap_mb


@dataclass(frozen=True)
class Storage:
    """What `benchmark=storage` writes and reads, and where. Everything it writes is removed again."""

    path: Optional[str] = None  # a folder on the storage to be tested; None: the working folder
    tests: list[str] = field(
        default_factory=lambda: [
            "write_fsync",
            "read_sequential",
            "read_random",
            "safetensors_load",
            "checkpoint_save",
            "checkpoint_load",
            "data_loader",
        ]
    )
    size_mib: float = 256.0  # what one rank writes and reads in one test; all ranks work at once
    block_kib: int = 1024
    random_block_kib: int = 4
    max_seconds: float = 10.0  # of one test that can stop early: reads, writes, the data loader
    workers: int = 0  # data-loader processes of one rank; 0 loads in the rank itself
    fio: str = "auto"  # auto: where it is installed | off


@dataclass(frozen=True)
class Pairs:
    """Messages of `benchmark=pairs`: one card sends to one while all others wait."""

    bytes: Optional[int] = None  # of one message; None: 256 MiB between cards, 8 MiB between processors
    warmup_iters: int = 2
    iters: int = 10
    max_seconds_per_pair: float = 2.0  # fewer calls where a link is slow
    both_directions: bool = True  # each pair once more with both sending at once


@dataclass(frozen=True)
class Matmul:
    """Shapes and types of `benchmark=matmul`: the products of the model's own layers, and squares."""

    dtypes: list[str] = field(default_factory=list)  # fp32 | bf16 | fp16; empty: what the recipe multiplies in
    layers: bool = True  # every product of a layer and the head: forward and both gradients, of one micro-batch
    squares: Optional[list[int]] = None  # sides; None: 256 to 1024 on a processor, 1024 to 8192 on a card
    iters: int = 20
    warmup_iters: int = 2
    max_seconds_per_shape: float = 2.0  # fewer products where one is slow, three at least


@dataclass(frozen=True)
class Benchmark:
    """What a cell measures."""

    name: str = "finetune"
    collectives: Collectives = field(default_factory=Collectives)
    storage: Storage = field(default_factory=Storage)
    pairs: Pairs = field(default_factory=Pairs)
    matmul: Matmul = field(default_factory=Matmul)


@dataclass(frozen=True)
class Workload:
    """The job to be paid for."""

    epoch_tokens: Optional[float] = None  # None: the tokens of the measured data set
    epochs: float = 1.0
    deadline_hours: Optional[float] = None
    budget: Optional[float] = None  # in the price sheet's currency


@dataclass(frozen=True)
class Costs:
    """What a job costs besides the cards' working hours. All zero: only the tier's own charges count."""

    idle_share: float = 0.0  # share of the rented hours in which the cards do not work, 0 to below 1
    debug_hours: float = 0.0  # getting a multi-card job to run: rented hours, only where cards > 1
    person_rate: float = 0.0  # money for an hour of the person who sets up and debugs
    person_currency: Optional[str] = None  # None: that of the price sheet
    storage_gb: float = 0.0  # kept for the rental, at the tier's storage price
    storage_months: Optional[float] = None  # None: as long as the rental
    egress_gb: float = 0.0  # moved out at the tier's egress price
    dataset_gb: float = 0.0  # read once an epoch; slower storage than the cards' pace stretches the epoch
    checkpoint_gb: float = 0.0  # written at the tier's write speed, while the cards wait
    checkpoint_s: float = 0.0  # the same as time, where the size or the speed is not known
    checkpoint_interval_hours: float = 0.0  # 0: none are written, so an interruption loses everything
    restart_hours: float = 0.0  # from an interruption until the job works again


@dataclass(frozen=True)
class Decide:
    """How `decide` chooses; the deadline and the budget are the workload's."""

    objective: str = "cheapest"  # cheapest | fastest | cheapest_before_deadline
    card_counts: list[int] = field(default_factory=list)  # what is on offer; empty: any
    model: Optional[str] = None  # which of several models in the study
    max_memory_share: Optional[float] = None  # of the card: 0.9 leaves out what is tight
    predict: bool = True  # also consider counts that were not measured, marked as predicted
    currency: Optional[str] = None  # what all money is converted to; None: the sheets' own, which must be one
    rates: list[dict[str, Any]] = field(default_factory=list)  # {from, to, rate, date}: the only rates ever used


@dataclass(frozen=True)
class WhatIf:
    """A cluster other than the measured one, for `predict`; None keeps what was measured or the machine states."""

    nodes: Optional[int] = None  # the cards are spread over so many; None: nodes filled one after the other
    rails: Optional[int] = None  # network cards a node, each of machine.inter_node_gbps; None: one a card
    oversubscription: Optional[float] = None  # what the nodes can send over what the upper stage carries, 1 or more
    pod_nodes: int = 1  # nodes that reach each other below the oversubscribed stage
    straggler_cv: Optional[float] = None  # standard deviation over mean of a rank's compute


@dataclass(frozen=True)
class Plan:
    """What `plan` sizes: a training step, or a model that serves requests (the fields below `task` are for serving)."""

    task: str = "training"  # training | inference
    weights: str = "fp16"  # fp16 | int8 | int4: of the layers' matrices; embedding, head and norms stay 16 bit
    group_size: int = 128  # quantised weights that share a scale and a zero point; 0: a matrix's whole row does
    kv_cache: str = "fp16"  # fp16 | fp8
    context: int = 4096  # tokens that a request holds at most, prompt and answer
    page_tokens: int = 16  # the cache is handed out in pages of so many tokens
    concurrency: int = 1  # requests that one replica holds at once
    prefill_tokens: int = 2048  # tokens that go through the model at once
    requests_per_s: Optional[float] = None  # what is asked for; with tokens_per_s it says how many replicas
    answer_tokens: int = 256  # of one request
    tokens_per_s: Optional[float] = None  # that one replica generates, measured or from elsewhere


@dataclass(frozen=True)
class Budget:
    """What a sweep may spend; None is no bound. Card-hours and money count the whole study, minutes this command."""

    card_hours: Optional[float] = None
    money: Optional[float] = None  # in the price sheet's currency, at the tier's high price
    minutes: Optional[float] = None
    tier: Optional[str] = None  # the tier that turns card-hours into money
    cards: Optional[int] = None  # cards that are paid for; None: those of the machine, or of the study's largest cell


@dataclass(frozen=True)
class Machine:
    """A card and its links, as the vendor states them. Bandwidths are per card and direction, GB/s in powers of ten."""

    name: str = "cpu"
    device: str = "cpu"  # cpu | cuda
    card_names: list[str] = field(default_factory=list)  # what the driver calls this card
    card_memory_gib: Optional[float] = None
    peak_tflops: dict[str, float] = field(default_factory=dict)  # dense, by precision: fp32, tf32, bf16, fp16, fp8
    memory_gbps: Optional[float] = None
    interconnect: str = "shared memory"
    intra_node_gbps: Optional[float] = None
    inter_node_gbps: Optional[float] = None
    cards_per_node: int = 8
    source: str = ""


@dataclass(frozen=True)
class Cluster:
    """The nodes of one cell. By hand: the same command on every node, with its own node_rank."""

    nodes: int = 1
    node_rank: int = 0
    rendezvous: Optional[str] = None  # host:port of node 0
    threads_per_rank: int = 1  # the same at every card count, or the one-card baseline would be inflated
    env: dict[str, str] = field(default_factory=dict)  # NCCL_* and friends for the ranks of a cell


@dataclass(frozen=True)
class Config:
    """The root of the tree."""

    study_name: str = "default"
    results_dir: str = "results/runs"
    benchmark: Benchmark = field(default_factory=Benchmark)
    model: Model = field(default_factory=Model)
    mode: Mode = field(default_factory=Mode)
    recipe: Recipe = field(default_factory=Recipe)
    data: Data = field(default_factory=Data)
    machine: Machine = field(default_factory=Machine)
    measure: Measure = field(default_factory=Measure)
    workload: Workload = field(default_factory=Workload)
    costs: Costs = field(default_factory=Costs)
    decide: Decide = field(default_factory=Decide)
    whatif: WhatIf = field(default_factory=WhatIf)
    budget: Budget = field(default_factory=Budget)
    plan: Plan = field(default_factory=Plan)
    cluster: Cluster = field(default_factory=Cluster)
    cards: int = 1
    seq_len: int = 128
    micro_batch: Union[int, str] = 2  # sequences a rank takes through the model at once, or "auto"
    global_batch: int = 16  # sequences in one optimizer step; under weak scaling, at one card
    scaling: str = "strong"  # strong: the global batch is fixed; weak: the batch per card is
    repeat: int = 0  # which repeat of the cell this is; repeats are separate records
    price_sheets: list[str] = field(default_factory=list)  # empty: the example sheet, and the decision says so
    source: Optional[str] = None  # a measurement CSV to read instead of a study
    to: Optional[str] = None  # what `export` writes: pytest-benchmark | csv | parquet | mlflow
    a: Optional[str] = None  # the study, or measurement CSV, that `compare` holds `b` against
    b: Optional[str] = None
    out: Optional[str] = None  # the file that `export` writes; for mlflow a tracking URI or a folder
    report_dir: Optional[str] = None  # where a report's files go; None: <study>/report, for a source CSV nowhere
    gate: str = "on"  # on: a cell that cannot fit is recorded infeasible and not run
    sweep: str = "full"  # full: every cell; adaptive: only those that can still change the decision
    pack: bool = False  # cells that leave cards free run side by side on disjoint ones
    retry: str = "failed"  # which records are measured again: none | failed | oom | all
    format: str = "text"  # text | json
    lang: str = "en"
    grids: list[dict[str, Any]] = field(default_factory=list)  # a preset's sweeps: each a product of overrides
