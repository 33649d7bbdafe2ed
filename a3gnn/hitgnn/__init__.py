"""HitGNN: synchronous algorithms, accelerator platforms and generated accelerators; cli/ alone imports them."""
