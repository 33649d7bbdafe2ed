"""Which thread may use which core, how stages share them, and what of their time others take."""
