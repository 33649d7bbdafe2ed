"""Dynamic resource management (HyScale-GNN, section IV-A): shares and threads that follow measured seconds."""
