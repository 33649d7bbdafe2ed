"""What machine this is: its hardware, and what a probe measures of it."""
