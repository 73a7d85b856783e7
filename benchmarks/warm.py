"""What the fork server imports once, so that no rank pays for it again. Imports only: no CUDA, no threads."""

import torch
import torch.distributed.fsdp
import torch.distributed.pipelining
import torch.distributed.tensor.parallel
import torch.utils._foreach_utils
import transformers.models.llama.modeling_llama  # noqa: F401

import benchmarks.finetune
import benchmarks.ranks  # noqa: F401

torch.set_num_threads(1)  # a thread pool made here would not survive the fork
