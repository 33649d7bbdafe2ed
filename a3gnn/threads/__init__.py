"""Which thread may use which core, and how stages share them."""
