#include "case.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace {

const unsigned MAGIC = 0x53484c31;  // "1LHS"

template <typename T>
std::vector<T> read_many(std::istream& in, size_t count) {
    std::vector<T> values(count);
    in.read(reinterpret_cast<char*>(values.data()), std::streamsize(count * sizeof(T)));
    if (!in) fail("the case ends too early");
    return values;
}

unsigned read_one(std::istream& in) { return read_many<unsigned>(in, 1)[0]; }

Matrix read_matrix(std::istream& in, unsigned rows, unsigned columns) {
    Matrix matrix(rows, columns);
    const std::vector<float> values = read_many<float>(in, size_t(rows) * columns);
    for (unsigned r = 0; r < rows; ++r) {
        for (unsigned c = 0; c < columns; ++c) matrix.at(r, c) = values[size_t(r) * columns + c];
    }
    return matrix;
}

Layer read_layer(std::istream& in) {
    const std::vector<unsigned> sizes = read_many<unsigned>(in, 7);
    Layer layer;
    layer.num_sources = sizes[0];
    layer.num_destinations = sizes[1];
    layer.in_columns = sizes[2];
    layer.out_columns = sizes[3];
    layer.parts = sizes[4];
    layer.rectified = sizes[5] != 0;
    const std::vector<unsigned> sources = read_many<unsigned>(in, sizes[6]);
    const std::vector<unsigned> destinations = read_many<unsigned>(in, sizes[6]);
    const std::vector<float> weights = read_many<float>(in, sizes[6]);
    std::vector<Edge> edges(sizes[6]);
    for (size_t e = 0; e < edges.size(); ++e) {
        if (sources[e] >= layer.num_sources || destinations[e] >= layer.pieces()) fail("an edge leaves its layer");
        edges[e] = Edge{sources[e], destinations[e], weights[e], 0};
    }
    layer.edges = sorted_by_source(edges, layer.num_sources);
    const Matrix compact = read_matrix(in, layer.parts * layer.in_columns, layer.out_columns);
    layer.weight = Matrix(layer.depth(), layer.out_columns);
    for (unsigned i = 0; i < compact.rows; ++i) {
        for (unsigned c = 0; c < compact.columns; ++c) layer.weight.at(layer.column_of(i), c) = compact.at(i, c);
    }
    layer.bias = read_matrix(in, 1, layer.out_columns);
    return layer;
}

void write_row(std::ostream& out, const Matrix& matrix, unsigned row) {
    for (unsigned c = 0; c < matrix.columns; ++c) {
        const float value = matrix.at(row, c);
        out.write(reinterpret_cast<const char*>(&value), sizeof value);
    }
}

void write_matrix(std::ostream& out, const Matrix& matrix) {
    for (unsigned r = 0; r < matrix.rows; ++r) write_row(out, matrix, r);
}

}  // namespace

void fail(const std::string& message) {
    std::fprintf(stderr, "%s\n", message.c_str());
    std::exit(1);
}

Matrix::Matrix(unsigned num_rows, unsigned num_columns)
    : rows(num_rows),
      columns(num_columns),
      stride((num_columns + LANES - 1) / LANES),
      words(size_t(num_rows) * stride, Word()) {}

Matrix transposed(const Matrix& matrix) {
    Matrix turned(matrix.columns, matrix.rows);
    for (unsigned r = 0; r < matrix.rows; ++r) {
        for (unsigned c = 0; c < matrix.columns; ++c) turned.at(c, r) = matrix.at(r, c);
    }
    return turned;
}

Edges sorted_by_source(std::vector<Edge> edges, unsigned num_sources) {
    std::vector<size_t> next(num_sources + 1, 0);
    for (size_t e = 0; e < edges.size(); ++e) ++next[edges[e].source + 1];
    Edges sorted;
    for (unsigned s = 0; s < num_sources; ++s) {
        if (next[s + 1] > 0) sorted.runs.push_back(Run{s, unsigned(next[s + 1])});
        next[s + 1] += next[s];
    }
    sorted.edges.resize(edges.size());
    for (size_t e = 0; e < edges.size(); ++e) sorted.edges[next[edges[e].source]++] = edges[e];
    return sorted;
}

Edges reversed(const Edges& edges, unsigned num_destinations) {
    std::vector<Edge> turned(edges.edges);
    for (size_t e = 0; e < turned.size(); ++e) std::swap(turned[e].source, turned[e].destination);
    return sorted_by_source(turned, num_destinations);
}

unsigned Layer::depth() const { return column_of(parts * in_columns - 1) + 1; }

unsigned Layer::column_of(unsigned i) const {
    const unsigned padded = (in_columns + LANES - 1) / LANES * LANES;
    return i / in_columns * padded + i % in_columns;
}

Case read_case(const std::string& path) {
    std::ifstream in(path.c_str(), std::ios::binary);
    if (!in) fail("can't read " + path);
    if (read_one(in) != MAGIC) fail(path + " is no case");
    Case read;
    const unsigned num_layers = read_one(in);
    for (unsigned i = 0; i < num_layers; ++i) read.layers.push_back(read_layer(in));
    const Layer &first = read.layers.front(), &last = read.layers.back();
    read.features = read_matrix(in, first.num_sources, first.in_columns);
    read.gradient = read_matrix(in, last.num_destinations, last.out_columns);
    return read;
}

void write_results(const std::string& path, const Case& from, const std::vector<Trained>& layers) {
    std::ofstream out(path.c_str(), std::ios::binary);
    for (size_t i = 0; i < layers.size(); ++i) {
        write_matrix(out, layers[i].out);
        const Layer& layer = from.layers[i];
        for (unsigned row = 0; row < layer.parts * layer.in_columns; ++row) {
            write_row(out, layers[i].weight_gradient, layer.column_of(row));
        }
        write_matrix(out, layers[i].bias_gradient);
        write_matrix(out, layers[i].source_gradient);
    }
    if (!out) fail("can't write " + path);
}
