// The gradient of bias and ReLU, which comes before an update kernel's backward products.
#ifndef A3GNN_ACTIVATION_HPP
#define A3GNN_ACTIVATION_HPP

#include "types.hpp"

// Writes to `gated` the gradient where `out` is positive (everywhere, if not `rectified`), zero elsewhere, and to
// `bias_gradient`, a row, the sums of its columns. All have rows of `num_words` words.
extern "C" void activation_gradient(const Word* gradient, const Word* out, Word* gated, Word* bias_gradient,
                                    unsigned num_rows, unsigned num_words, bool rectified);

#endif
