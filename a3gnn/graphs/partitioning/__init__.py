"""How nodes are dealt to parts: METIS, at random, and BGL's blocks; and how good the parts are."""
