"""How fast `a3gnn serve` answers, what it keeps, and what it takes from the trials beside it."""
