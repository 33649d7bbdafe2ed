// The C simulation: runs a case on the kernels as they are, counts cycles, and writes results and counts.
//
//   simulate CASE RESULTS    the counts go to stdout, as a JSON array with an object per kernel call
#include <cstdio>

#include "../host/training_step.hpp"
#include "../kernels/activation.hpp"
#include "../kernels/aggregate.hpp"
#include "../kernels/update.hpp"
#include "clock.hpp"

namespace {

using simulation::Cycle;
using simulation::Report;

template <typename Counts>
void print_counts(const char* name, const Counts& counts) {
    std::printf(", \"%s\": {", name);
    const char* comma = "";
    for (typename Counts::const_iterator one = counts.begin(); one != counts.end(); ++one, comma = ", ") {
        std::printf("%s\"%s\": %llu", comma, one->first.c_str(), one->second);
    }
    std::printf("}");
}

class CSimulation {
   public:
    CSimulation() : layer_(0), pass_(""), comma_("[") {}

    void at(unsigned layer, const char* pass) {
        layer_ = layer;
        pass_ = pass;
    }

    void aggregate(const Matrix& rows, const Edges& edges, Matrix& sums) {
        // The widest slab whose sums fit on the chip; each slab is a call.
        const unsigned fitting = sums.rows == 0 ? ROW_WORDS : unsigned(RESULT_WORDS) / sums.rows;
        const unsigned widest = fitting < ROW_WORDS ? fitting : ROW_WORDS;
        if (widest == 0) {
            fail("sums of " + std::to_string(sums.rows) + " rows must fit in RESULT_WORDS = " +
                 std::to_string(RESULT_WORDS) + " words; generate with more result_bytes");
        }
        for (unsigned first = 0; first < sums.stride; first += widest) {
            const unsigned words = sums.stride - first < widest ? sums.stride - first : widest;
            simulation::report() = Report();
            ::aggregate(rows.words.data(), edges.edges.data(), edges.runs.data(), sums.words.data(),
                        unsigned(edges.edges.size()), unsigned(edges.runs.size()), sums.rows, sums.stride, first,
                        words);
            const std::map<std::string, Cycle> sizes = {{"edges", edges.edges.size()}, {"destinations", sums.rows},
                                                        {"words", words}};
            print("aggregate", sizes);
        }
    }

    void update(const Matrix& left, bool transposed, const Matrix& top, const Matrix* bias, bool rectified,
                Matrix& out) {
        simulation::report() = Report();
        const unsigned depth = transposed ? left.rows : left.columns;
        ::update(left.words.data(), top.words.data(), bias ? bias->words.data() : nullptr, out.words.data(), out.rows,
                 depth, out.columns, left.stride, top.stride, out.stride, transposed, bias != nullptr, rectified);
        print("update", {{"rows", out.rows}, {"depth", depth}, {"columns", out.columns}});
    }

    void activation_gradient(const Matrix& gradient, const Matrix& out, bool rectified, Matrix& gated, Matrix& bias) {
        simulation::report() = Report();
        ::activation_gradient(gradient.words.data(), out.words.data(), gated.words.data(), bias.words.data(), out.rows,
                              out.stride, rectified);
        print("activation_gradient", {{"rows", out.rows}, {"words", out.stride}});
    }

    void end() { std::printf("%s]\n", comma_[0] == '[' ? "[" : ""); }

   private:
    void print(const char* kernel, const std::map<std::string, Cycle>& sizes) {
        const Report& counted = simulation::report();
        std::map<std::string, Cycle> iterations, ends;
        Cycle cycles = 0;
        for (const auto& process : counted.processes) {
            iterations[process.first] = process.second.iterations;
            ends[process.first] = process.second.ends;
            cycles = std::max(cycles, process.second.ends);
        }
        std::printf("%s{\"layer\": %u, \"pass\": \"%s\", \"kernel\": \"%s\", \"cycles\": %llu", comma_, layer_, pass_,
                    kernel, cycles);
        print_counts("sizes", sizes);
        print_counts("iterations", iterations);
        print_counts("ends", ends);
        print_counts("counts", counted.counts);
        print_counts("marks", counted.marks);
        print_counts("depths", counted.depths);
        std::printf("}");
        comma_ = ",\n ";
    }

    unsigned layer_;
    const char *pass_, *comma_;
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) {
        std::fprintf(stderr, "usage: simulate CASE RESULTS\n");
        return 2;
    }
    const Case task = read_case(arguments[1]);
    CSimulation device;
    write_results(arguments[2], task, train_step(task, device));
    device.end();
    return 0;
}
