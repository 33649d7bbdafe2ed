"""The graphs of a server, each examined in a process of its own."""
