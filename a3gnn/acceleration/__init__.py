"""`accelerate`: a user's PyG model, whose convolutions run on compiled kernels."""
