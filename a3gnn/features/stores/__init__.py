"""`FeatureStore` and its implementations: dense and sparse rows on the host, and a cache on devices before them."""
