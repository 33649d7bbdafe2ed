"""The accelerator generator: HLS C++ and OpenCL C of a design, its C simulation, and its check against torch."""
