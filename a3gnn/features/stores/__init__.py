"""`FeatureStore` and what implements it: dense and sparse rows on the host, and a cache on devices in front of them."""
