"""Where measurements are kept, exported, imported and shipped."""
