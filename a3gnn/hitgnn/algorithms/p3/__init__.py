"""P3 (Gandhi and Iyer, OSDI 2021; HitGNN, section II-C): features by column, partial products summed."""
