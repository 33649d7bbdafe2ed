"""A model of the user's: how it is made, called, counted, and what its sources are."""
