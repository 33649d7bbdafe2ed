"""Synchronous training algorithms: who has which nodes and features, and what ranks send each other."""
