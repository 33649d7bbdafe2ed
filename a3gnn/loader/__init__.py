"""`Loader`: mini-batches for a training loop of the user's, as PyG's objects."""
