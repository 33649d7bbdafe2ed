"""Files: written whole or not at all, memory-mapped, read ahead, and cached on this machine."""
