/* What `a3gnn accelerator generate` chose; read by the kernels and by the host programs. */
#ifndef A3GNN_CONFIG_H
#define A3GNN_CONFIG_H

/* n: scatter-gather units of the aggregate kernel. A power of two. */
#define UNITS $units
/* m: multipliers of the update kernel, an array of ROWS x COLUMNS. */
#define MULTIPLIERS $multipliers
#define ROWS $rows
#define COLUMNS $columns
/* Words of 512 bits in which the gather units keep sums on the chip, all units together. */
#define RESULT_WORDS $result_words
/* Values that a FIFO of the routing network holds. The C simulation's have no end; it says how many were needed. */
#define FIFO_DEPTH $fifo_depth
/* Values that a FIFO holds from which the array of multipliers takes its entries. */
#define ENTRY_DEPTH $entry_depth
/* Cycles of a float addition. A guess: what a tool makes of it depends on the chip and on the clock. */
#define ADD_LATENCY $add_latency

#endif
