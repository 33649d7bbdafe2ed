"""Devices of trainers: the programming layer of the processor-accelerator protocol, one module per kind."""
