"""Devices that trainers run on: the programming layer of the processor-accelerator protocol, a module for each kind."""
