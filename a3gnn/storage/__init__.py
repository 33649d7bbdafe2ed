"""Files: written whole or not at all, mapped into memory, read ahead, and where this machine keeps copies."""
