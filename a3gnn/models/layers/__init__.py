"""Graph layers over CSR blocks, with the parameters of PyG's convolutions."""
