"""The analytic model: seconds, bytes and accuracy of a configuration from equations and the probe's constants."""
