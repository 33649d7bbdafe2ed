"""The pages of a server for browsers."""
