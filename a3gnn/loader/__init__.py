"""`Loader`: mini-batches as PyG objects for a user's own training loop."""
