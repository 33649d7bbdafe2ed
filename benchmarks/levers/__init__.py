"""What each knob gains alone, and the best of them together."""
