"""HyScale-GNN: several trainers of one process, on devices of several kinds; apply/ and profiling/ open them."""
