"""What a tune expects of configurations: the surrogate's predictions, beside what was measured."""
