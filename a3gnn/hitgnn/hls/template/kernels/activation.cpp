#include "activation.hpp"

#include "cycles.hpp"

void activation_gradient(const Word* gradient, const Word* out, Word* gated, Word* bias_gradient, unsigned num_rows,
                         unsigned num_words, bool rectified) {
#pragma HLS interface m_axi port = gradient bundle = gradient
#pragma HLS interface m_axi port = out bundle = out
#pragma HLS interface m_axi port = gated bundle = gated
#pragma HLS interface m_axi port = bias_gradient bundle = gated
    PROCESS("activation_gradient");
    // Rows are summed in turn into as many sums as an addition takes cycles.
    Word sums[ADD_LATENCY][ROW_WORDS];
    for (unsigned first = 0; first < num_words; first += ROW_WORDS) {
        const unsigned width = num_words - first < ROW_WORDS ? num_words - first : ROW_WORDS;
        for (unsigned row = 0; row < num_rows; ++row) {
            for (unsigned w = 0; w < width; ++w) {
#pragma HLS pipeline II = 1
#pragma HLS dependence variable = sums inter distance = ADD_LATENCY true
                CYCLE;
                const unsigned word = row * num_words + first + w;
                Word& sum = sums[row % ADD_LATENCY][w];
                for (int lane = 0; lane < LANES; ++lane) {
#pragma HLS unroll
                    const bool passes = !rectified || out[word].lane[lane] > 0;
                    const float value = passes ? gradient[word].lane[lane] : 0;
                    gated[word].lane[lane] = value;
                    sum.lane[lane] = (row < ADD_LATENCY ? 0 : sum.lane[lane]) + value;
                }
            }
        }
        const unsigned parts = num_rows < ADD_LATENCY ? num_rows : ADD_LATENCY;
        for (unsigned w = 0; w < width; ++w) {
            Word total = Word();
            for (unsigned part = 0; part < parts; ++part) {
#pragma HLS pipeline II = ADD_LATENCY
                for (int wait = 0; wait < ADD_LATENCY; ++wait) CYCLE;
                for (int lane = 0; lane < LANES; ++lane) {
#pragma HLS unroll
                    total.lane[lane] += sums[part][w].lane[lane];
                }
            }
            bias_gradient[first + w] = total;
        }
    }
}
