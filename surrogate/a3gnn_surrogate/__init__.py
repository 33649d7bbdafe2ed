"""Predicts throughput, memory and accuracy of a configuration: an analytic model and XGBoost on its residual."""
