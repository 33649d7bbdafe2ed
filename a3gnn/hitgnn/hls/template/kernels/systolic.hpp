// An array of ROWS x COLUMNS multipliers: left entries move right, top entries move down, sums stay.
#ifndef A3GNN_SYSTOLIC_HPP
#define A3GNN_SYSTOLIC_HPP

#include <hls_stream.h>

#include "cycles.hpp"
#include "types.hpp"

// Sums that a multiplier makes in turn, so that each has left the adder before it is added to again.
const unsigned INTERLEAVED = ADD_LATENCY;
const unsigned BLOCK_ROWS = ROWS * INTERLEAVED;

// A multiplier with its adder: INTERLEAVED sums of `depth` products per block, a product per cycle.
inline void multiply_add(unsigned blocks, unsigned depth, bool passes_left, bool passes_top, hls::stream<float>& left,
                         hls::stream<float>& right, hls::stream<float>& top, hls::stream<float>& below,
                         hls::stream<float>& sums) {
    PROCESS("multiply_add");
    float sum[INTERLEAVED], b = 0;
#pragma HLS array_partition variable = sum complete
    for (unsigned step = 0, i = 0, k = 0; step < blocks * depth * INTERLEAVED; ++step) {
#pragma HLS pipeline II = 1
#pragma HLS dependence variable = sum inter distance = ADD_LATENCY true
        CYCLE;
        const float a = left.read();
        if (passes_left) right.write(a);
        if (i == 0) {
            b = top.read();
            if (passes_top) below.write(b);
        }
        const float total = (k == 0 ? 0 : sum[i]) + a * b;
        sum[i] = total;
        if (k + 1 == depth) sums.write(total);
        i = i + 1 == INTERLEAVED ? 0 : i + 1;
        if (i == 0) k = k + 1 == depth ? 0 : k + 1;
    }
}

// Brings the sums of one column of multipliers into the order of rows, a sum per cycle.
inline void collect(unsigned blocks, hls::stream<float> sums[ROWS], hls::stream<float>& column) {
    PROCESS("collect");
    for (unsigned i = 0; i < blocks * BLOCK_ROWS; ++i) {
#pragma HLS pipeline II = 1
        CYCLE;
        column.write(sums[i % ROWS].read());
    }
}

// Multiplies blocks: of each, `depth` times INTERLEAVED entries per row from the left, `depth` per column from above.
inline void multiply(unsigned blocks, unsigned depth, hls::stream<float> lefts[ROWS], hls::stream<float> tops[COLUMNS],
                     hls::stream<float> columns[COLUMNS]) {
#pragma HLS inline
    // Beyond the first column and row are the links between neighbours.
    hls::stream<float> right[ROWS][COLUMNS], below[ROWS][COLUMNS], sums[COLUMNS][ROWS];
#pragma HLS stream variable = sums depth = 2 * INTERLEAVED
    for (unsigned r = 0; r < ROWS; ++r) {
#pragma HLS unroll
        for (unsigned c = 0; c < COLUMNS; ++c) {
#pragma HLS unroll
            multiply_add(blocks, depth, c + 1 < COLUMNS, r + 1 < ROWS, c == 0 ? lefts[r] : right[r][c - 1], right[r][c],
                         r == 0 ? tops[c] : below[r - 1][c], below[r][c], sums[c][r]);
        }
    }
    for (unsigned c = 0; c < COLUMNS; ++c) {
#pragma HLS unroll
        collect(blocks, sums[c], columns[c]);
    }
}

#endif
