"""nccl-tests output and its kin, read without loss: text, JSON, its sections and columns."""
