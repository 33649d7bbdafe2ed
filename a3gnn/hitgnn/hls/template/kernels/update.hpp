// The update kernel: a blocked matrix product on a systolic array (HitGNN, section V-C).
#ifndef A3GNN_UPDATE_HPP
#define A3GNN_UPDATE_HPP

#include "types.hpp"

// Writes left @ top, or left' @ top where `transposed`, plus `bias` where `biased`, through ReLU where `rectified`.
//
// The product has `num_rows` x `num_columns` values, each a sum of `depth` terms. Matrices have rows of so many words:
// left_stride (of num_rows rows, or of `depth` where transposed), top_stride (of `depth` rows), out_stride.
// out, where nothing is written beyond num_columns but to whole words, begins as zeros.
extern "C" void update(const Word* left, const Word* top, const Word* bias, Word* out, unsigned num_rows,
                       unsigned depth, unsigned num_columns, unsigned left_stride, unsigned top_stride,
                       unsigned out_stride, bool transposed, bool biased, bool rectified);

#endif
