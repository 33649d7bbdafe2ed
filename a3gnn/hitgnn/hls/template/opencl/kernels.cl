// The kernels in OpenCL C, cut as the accelerator is: UNITS work-items gather, ROWS x COLUMNS work-items multiply.
// The host program defines these constants, as config.h has them. OpenCL C's float16 is a vector of 16 float32: a word.

// A work-group sums one word of each row. A source's word is read once, into local memory, and every work-item adds it
// to the destinations that it keeps. Edges are (source, destination, weight's bits, unused); runs (source, edges).
__kernel __attribute__((reqd_work_group_size(UNITS, 1, 1))) void aggregate(
    __global const float16* features, __global const uint4* edges, __global const uint2* runs, __global float16* sums,
    uint num_runs, uint num_destinations, uint stride) {
    __local float16 copy;
    const uint unit = get_local_id(0), word = get_group_id(0);
    for (uint d = unit; d < num_destinations; d += UNITS) sums[d * stride + word] = 0.0f;
    uint edge = 0;
    for (uint r = 0; r < num_runs; ++r) {
        if (unit == 0) copy = features[runs[r].x * stride + word];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (const uint end = edge + runs[r].y; edge < end; ++edge) {
            const uint4 one = edges[edge];
            if (one.y % UNITS == unit) sums[one.y * stride + word] += as_float(one.z) * copy;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

// A work-group multiplies a block of ROWS x COLUMNS values, a tile of TERMS terms at a time, a value per work-item.
// Strides are in float32 values.
#define TERMS 16
__kernel __attribute__((reqd_work_group_size(COLUMNS, ROWS, 1))) void update(
    __global const float* left, __global const float* top, __global const float* bias, __global float* out,
    uint num_rows, uint depth, uint num_columns, uint left_stride, uint top_stride, uint out_stride, uint transposed,
    uint biased, uint rectified) {
    __local float lefts[ROWS][TERMS], tops[TERMS][COLUMNS];
    const uint c = get_local_id(0), r = get_local_id(1), item = r * COLUMNS + c;
    const uint column = get_group_id(0) * COLUMNS + c, row = get_group_id(1) * ROWS + r;
    const uint first_column = get_group_id(0) * COLUMNS, first_row = get_group_id(1) * ROWS;
    float sum = 0.0f;
    for (uint first = 0; first < depth; first += TERMS) {
        for (uint i = item; i < ROWS * TERMS; i += MULTIPLIERS) {
            const uint at = first_row + i / TERMS, k = first + i % TERMS;
            const bool there = at < num_rows && k < depth;
            const uint place = transposed ? k * left_stride + at : at * left_stride + k;
            lefts[i / TERMS][i % TERMS] = there ? left[place] : 0.0f;
        }
        for (uint i = item; i < TERMS * COLUMNS; i += MULTIPLIERS) {
            const uint k = first + i / COLUMNS, at = first_column + i % COLUMNS;
            tops[i / COLUMNS][i % COLUMNS] = k < depth && at < num_columns ? top[k * top_stride + at] : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < TERMS; ++k) sum += lefts[r][k] * tops[k][c];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < num_rows && column < num_columns) {
        if (biased) sum += bias[column];
        out[row * out_stride + column] = rectified ? fmax(sum, 0.0f) : sum;
    }
}

// A work-item takes a word of each row: the gradient through ReLU, and its sum over rows for the bias.
__kernel void activation_gradient(__global const float16* gradient, __global const float16* out,
                                  __global float16* gated, __global float16* bias_gradient, uint num_rows, uint stride,
                                  uint rectified) {
    const uint word = get_global_id(0);
    float16 sum = 0.0f;
    for (uint row = 0; row < num_rows; ++row) {
        const uint at = row * stride + word;
        float16 value = gradient[at];
        if (rectified) value = select((float16)(0.0f), value, out[at] > 0.0f);
        gated[at] = value;
        sum += value;
    }
    bias_gradient[word] = sum;
}
