"""The analytic model's predictions compared with what graphs do."""
