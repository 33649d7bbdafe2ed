// The forward and backward pass of a mini-batch, kernel by kernel, on whatever device runs the kernels.
#ifndef A3GNN_TRAINING_STEP_HPP
#define A3GNN_TRAINING_STEP_HPP

#include "case.hpp"

// A view of `matrix` of `pieces` times as many rows, each a piece of `columns` and its padding: the same words.
inline Matrix in_pieces(Matrix matrix, unsigned pieces, unsigned columns) {
    matrix.rows *= pieces;
    matrix.columns = columns;
    matrix.stride /= pieces;
    return matrix;
}

inline Matrix joined(Matrix matrix, unsigned pieces, unsigned columns) {
    matrix.rows /= pieces;
    matrix.columns = columns;
    matrix.stride *= pieces;
    return matrix;
}

// Runs `task` on `device` and returns what each layer made.
//
// A device has
//   void at(unsigned layer, const char* pass)            what is run next
//   void aggregate(const Matrix& rows, const Edges& edges, Matrix& sums)
//   void update(const Matrix& left, bool transposed, const Matrix& top, const Matrix* bias, bool rectified,
//               Matrix& out)
//   void activation_gradient(const Matrix& gradient, const Matrix& out, bool rectified, Matrix& gated, Matrix& bias)
template <typename Device>
std::vector<Trained> train_step(const Case& task, Device& device) {
    std::vector<Trained> trained(task.layers.size());
    std::vector<Matrix> aggregated(task.layers.size());
    for (size_t i = 0; i < task.layers.size(); ++i) {
        const Layer& layer = task.layers[i];
        const Matrix& rows = i == 0 ? task.features : trained[i - 1].out;
        device.at(unsigned(i), "forward");
        Matrix sums(layer.pieces(), layer.in_columns);
        device.aggregate(rows, layer.edges, sums);
        aggregated[i] = joined(sums, layer.parts, layer.depth());
        trained[i].out = Matrix(layer.num_destinations, layer.out_columns);
        device.update(aggregated[i], false, layer.weight, &layer.bias, layer.rectified, trained[i].out);
    }
    for (size_t i = task.layers.size(); i-- > 0;) {
        const Layer& layer = task.layers[i];
        const Matrix& gradient = i + 1 == task.layers.size() ? task.gradient : trained[i + 1].source_gradient;
        device.at(unsigned(i), "backward");
        Matrix gated(layer.num_destinations, layer.out_columns);
        trained[i].bias_gradient = Matrix(1, layer.out_columns);
        device.activation_gradient(gradient, trained[i].out, layer.rectified, gated, trained[i].bias_gradient);
        trained[i].weight_gradient = Matrix(layer.depth(), layer.out_columns);
        device.update(aggregated[i], true, gated, nullptr, false, trained[i].weight_gradient);
        Matrix by_aggregated(layer.num_destinations, layer.depth());
        device.update(gated, false, transposed(layer.weight), nullptr, false, by_aggregated);
        trained[i].source_gradient = Matrix(layer.num_sources, layer.in_columns);
        device.aggregate(in_pieces(by_aggregated, layer.parts, layer.in_columns),
                         reversed(layer.edges, layer.pieces()), trained[i].source_gradient);
    }
    return trained;
}

#endif
