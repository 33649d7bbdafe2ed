// What the kernels move: words of 512 bits, edges sorted by their source, and what the units hand on.
#ifndef A3GNN_TYPES_HPP
#define A3GNN_TYPES_HPP

#include "../config.h"

const int LANES = 16;        // float32 values in a word of 512 bits (HitGNN, section VI-B)
const int ROW_WORDS = 64;    // words of a source's row that a scatter unit holds; longer rows are taken in slabs
const int BANK_WORDS = RESULT_WORDS / UNITS;

// Values of one row, beside each other. Rows are padded with zeros to whole words.
struct Word {
    float lane[LANES];
};

// An edge: the row `destination` of the sums gains `weight` times the row `source` of the features. 16 bytes.
struct Edge {
    unsigned source;
    unsigned destination;
    float weight;
    unsigned unused;
};

// Edges that follow each other and have one source.
struct Run {
    unsigned source;
    unsigned edges;
};

// What a scatter unit sends: `value` is to be added at `address`, which the gather unit address % UNITS keeps.
struct Update {
    Word value;
    unsigned address;
    bool last;  // nothing follows; there is no value
};

#endif
