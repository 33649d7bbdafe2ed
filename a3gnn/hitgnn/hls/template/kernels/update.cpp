#include "update.hpp"

#include <hls_stream.h>

#include "cycles.hpp"
#include "systolic.hpp"

namespace {

const unsigned COLUMN_WORDS = (COLUMNS + LANES - 1) / LANES;       // words that hold a block's columns of one row
const unsigned ROWS_WORDS = (BLOCK_ROWS + LANES - 1) / LANES;      // words that hold a block's rows of one column
const unsigned COLUMNS_PER_WORD = COLUMNS < LANES ? COLUMNS : LANES;

unsigned blocks_of(unsigned total, unsigned block) { return (total + block - 1) / block; }

// Words of a tile: BLOCK_ROWS rows by LANES terms of the sums.
unsigned tile_words(bool transposed, unsigned terms) { return transposed ? terms * ROWS_WORDS : BLOCK_ROWS; }

unsigned terms_of(unsigned tile, unsigned depth) {
    const unsigned left = depth - tile * LANES;
    return left < LANES ? left : LANES;
}

// Reads the left matrix tile by tile, all of a block's depth for every block of columns.
void read_left(const Word* left, unsigned num_rows, unsigned depth, unsigned column_blocks, unsigned stride,
               bool transposed, hls::stream<Word>& words) {
    PROCESS("read_left");
    for (unsigned first = 0; first < num_rows; first += BLOCK_ROWS) {
        for (unsigned tile = 0; tile < column_blocks * blocks_of(depth, LANES); ++tile) {
            const unsigned chunk = tile % blocks_of(depth, LANES);
            for (unsigned i = 0; i < tile_words(transposed, terms_of(chunk, depth)); ++i) {
#pragma HLS pipeline II = 1
                CYCLE;
                const unsigned row = transposed ? chunk * LANES + i / ROWS_WORDS : first + i;
                const unsigned word = transposed ? first / LANES + i % ROWS_WORDS : chunk;
                const bool there = word < stride && (transposed || row < num_rows);
                words.write(there ? left[row * stride + word] : Word());
            }
        }
    }
}

// Turns tiles of words into what enters the array's rows from the left. One tile is filled while another is sent.
void turn_left(unsigned row_blocks, unsigned column_blocks, unsigned depth, bool transposed,
               hls::stream<Word>& words, hls::stream<float> entries[ROWS]) {
    PROCESS("turn_left");
    float tiles[2][BLOCK_ROWS][LANES];
#pragma HLS array_partition variable = tiles dim = 1 complete
#pragma HLS array_partition variable = tiles dim = 2 cyclic factor = ROWS
#pragma HLS array_partition variable = tiles dim = 3 complete
    const unsigned chunks = blocks_of(depth, LANES), num_tiles = row_blocks * column_blocks * chunks;
    for (unsigned tile = 0; tile < num_tiles + 1; ++tile) {
        const unsigned first = tile / (column_blocks * chunks) * BLOCK_ROWS % LANES;  // of the block, within a word
        const unsigned filled = tile < num_tiles ? tile_words(transposed, terms_of(tile % chunks, depth)) : 0;
        const unsigned sent = tile > 0 ? terms_of((tile - 1) % chunks, depth) * INTERLEAVED : 0;
        for (unsigned i = 0; i < (filled > sent ? filled : sent); ++i) {
#pragma HLS pipeline II = 1
            CYCLE;
            if (i < filled) {
                const Word word = words.read();
                for (unsigned lane = 0; lane < LANES; ++lane) {
#pragma HLS unroll
                    const unsigned row = i % ROWS_WORDS * LANES + lane - first;
                    if (!transposed) tiles[tile & 1][i][lane] = word.lane[lane];
                    if (transposed && row < BLOCK_ROWS) tiles[tile & 1][row][i / ROWS_WORDS] = word.lane[lane];
                }
            }
            if (i < sent) {
                for (unsigned r = 0; r < ROWS; ++r) {
#pragma HLS unroll
                    entries[r].write(tiles[~tile & 1][i % INTERLEAVED * ROWS + r][i / INTERLEAVED]);
                }
            }
        }
    }
}

// Reads the top matrix, block of columns by block of columns, for every block of rows.
void read_top(const Word* top, unsigned row_blocks, unsigned column_blocks, unsigned depth, unsigned stride,
              hls::stream<float> entries[COLUMNS]) {
    PROCESS("read_top");
    for (unsigned block = 0; block < row_blocks * column_blocks; ++block) {
        const unsigned first = block % column_blocks * COLUMNS;
        for (unsigned k = 0; k < depth; ++k) {
            for (unsigned w = 0; w < COLUMN_WORDS; ++w) {
#pragma HLS pipeline II = 1
                CYCLE;
                const unsigned word = first / LANES + w;
                const Word read = word < stride ? top[k * stride + word] : Word();
                for (unsigned lane = 0; lane < COLUMNS_PER_WORD; ++lane) {
#pragma HLS unroll
                    entries[w * LANES + lane].write(read.lane[first % LANES + lane]);
                }
            }
        }
    }
}

// Writes blocks of sums, row by row, with bias and ReLU.
void write_block(const Word* bias, Word* out, unsigned num_rows, unsigned num_columns, unsigned stride, bool biased,
                 bool rectified, hls::stream<float> sums[COLUMNS]) {
    PROCESS("write_block");
    for (unsigned first_row = 0; first_row < num_rows; first_row += BLOCK_ROWS) {
        for (unsigned first = 0; first < num_columns; first += COLUMNS) {
            for (unsigned i = 0; i < BLOCK_ROWS * COLUMN_WORDS; ++i) {
#pragma HLS pipeline II = 1
                CYCLE;
                const unsigned row = first_row + i / COLUMN_WORDS, word = first / LANES + i % COLUMN_WORDS;
                const bool there = row < num_rows && word < stride;
                const Word offset = biased && there ? bias[word] : Word();
                for (unsigned lane = 0; lane < COLUMNS_PER_WORD; ++lane) {
#pragma HLS unroll
                    const unsigned to = first % LANES + lane;
                    const float sum = sums[i % COLUMN_WORDS * LANES + lane].read() + offset.lane[to];
                    if (there) out[row * stride + word].lane[to] = rectified && sum < 0 ? 0 : sum;
                }
            }
        }
    }
}

}  // namespace

void update(const Word* left, const Word* top, const Word* bias, Word* out, unsigned num_rows, unsigned depth,
            unsigned num_columns, unsigned left_stride, unsigned top_stride, unsigned out_stride, bool transposed,
            bool biased, bool rectified) {
#pragma HLS interface m_axi port = left bundle = left
#pragma HLS interface m_axi port = top bundle = top
#pragma HLS interface m_axi port = bias bundle = top
#pragma HLS interface m_axi port = out bundle = out
#pragma HLS dataflow
    const unsigned row_blocks = blocks_of(num_rows, BLOCK_ROWS), column_blocks = blocks_of(num_columns, COLUMNS);
    hls::stream<Word> words;
    hls::stream<float> lefts[ROWS], tops[COLUMNS], sums[COLUMNS];
#pragma HLS stream variable = words depth = 2 * LANES
#pragma HLS stream variable = lefts depth = ENTRY_DEPTH
#pragma HLS stream variable = tops depth = ENTRY_DEPTH
    read_left(left, num_rows, depth, column_blocks, left_stride, transposed, words);
    turn_left(row_blocks, column_blocks, depth, transposed, words, lefts);
    read_top(top, row_blocks, column_blocks, depth, top_stride, tops);
    multiply(row_blocks * column_blocks, depth, lefts, tops, sums);
    for (unsigned r = 0; r < ROWS; ++r) NOTE_DEPTH("lefts", lefts[r]);
    for (unsigned c = 0; c < COLUMNS; ++c) NOTE_DEPTH("tops", tops[c]);
    write_block(bias, out, num_rows, num_columns, out_stride, biased, rectified, sums);
}
