// The aggregate kernel: sums of weighted rows over edges (HitGNN, section V-C and Fig. 6).
#ifndef A3GNN_AGGREGATE_HPP
#define A3GNN_AGGREGATE_HPP

#include "types.hpp"

// Writes, for each destination, the sum over its edges of weight times the source's row; zeros where it has no edge.
//
// features, sums: rows of `stride` words. edges: sorted by source. runs: the same edges, source by source.
// A call takes the slab of words [first_word, first_word + num_words) of each row: num_words <= ROW_WORDS and
// num_destinations * num_words <= RESULT_WORDS. Each slab of each distinct source is read once.
extern "C" void aggregate(const Word* features, const Edge* edges, const Run* runs, Word* sums, unsigned num_edges,
                          unsigned num_runs, unsigned num_destinations, unsigned stride, unsigned first_word,
                          unsigned num_words);

#endif
