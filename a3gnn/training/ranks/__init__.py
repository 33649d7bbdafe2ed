"""Processes that train one model together, by torch.distributed: `torchrun --nproc-per-node N -m a3gnn train`."""
