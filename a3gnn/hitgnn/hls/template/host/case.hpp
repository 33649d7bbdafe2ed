// A training step to run: what `a3gnn.hitgnn.hls.case` writes, and what comes out.
#ifndef A3GNN_CASE_HPP
#define A3GNN_CASE_HPP

#include <string>
#include <vector>

#include "../kernels/types.hpp"

// A float32 matrix whose rows are padded with zeros to whole words.
struct Matrix {
    unsigned rows, columns, stride;  // stride: words per row
    std::vector<Word> words;

    Matrix(unsigned num_rows = 0, unsigned num_columns = 0);
    float& at(unsigned row, unsigned column) {
        return words[size_t(row) * stride + column / LANES].lane[column % LANES];
    }
    float at(unsigned row, unsigned column) const {
        return words[size_t(row) * stride + column / LANES].lane[column % LANES];
    }
};

Matrix transposed(const Matrix& matrix);

// Edges sorted by source, and the runs of one source each.
struct Edges {
    std::vector<Edge> edges;
    std::vector<Run> runs;
};

// Returns `edges` in the order of their sources; those of one source stay in their order.
Edges sorted_by_source(std::vector<Edge> edges, unsigned num_sources);

// Returns the edges from destinations to sources, sorted by destination.
Edges reversed(const Edges& edges, unsigned num_destinations);

// A layer: out = activation(aggregated @ weight + bias). `aggregated` has `parts` pieces per destination, each padded
// to whole words: GraphSAGE's are the mean and the row itself, GCN has one. Edges go to pieces, counted through.
struct Layer {
    unsigned num_sources, num_destinations, in_columns, out_columns, parts;
    bool rectified;
    Edges edges;
    Matrix weight;  // rows as `aggregated` has columns, padding included
    Matrix bias;    // one row

    unsigned pieces() const { return num_destinations * parts; }
    // Columns of `aggregated` up to the last one that is no padding.
    unsigned depth() const;
    // The column of `aggregated` of the `i`-th row of the weight as the model has it, without padding.
    unsigned column_of(unsigned i) const;
};

struct Case {
    std::vector<Layer> layers;
    Matrix features;
    Matrix gradient;  // of the last layer's output
};

// What a layer made, forward and backward.
struct Trained {
    Matrix out, weight_gradient, bias_gradient, source_gradient;
};

// Ends the program with a message.
[[noreturn]] void fail(const std::string& message);

// Reads a case; ends the program with a message where it is none.
Case read_case(const std::string& path);

// Writes what each layer made: float32, row by row, without padding.
void write_results(const std::string& path, const Case& from, const std::vector<Trained>& layers);

#endif
