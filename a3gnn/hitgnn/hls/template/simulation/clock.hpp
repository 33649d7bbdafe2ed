// The simulation's clocks: one per process of a dataflow region. All of a kernel's processes start at cycle 0.
//
// A process reads what was written in an earlier cycle, or waits for it (hls_stream.h); its own iterations take a cycle
// each. FIFOs have no end here, as in a vendor's C simulation: a writer never waits. `depths` says how many values the
// FIFOs held at once; where that is more than their depth, the kernel would take longer than is counted.
#ifndef A3GNN_SIMULATION_CLOCK_HPP
#define A3GNN_SIMULATION_CLOCK_HPP

#include <algorithm>
#include <map>
#include <string>

namespace simulation {

typedef unsigned long long Cycle;

// Of all processes of one name: the most iterations, and the cycle in which the last one ended.
struct Load {
    Cycle iterations, ends;
    Load() : iterations(0), ends(0) {}
};

// What was counted of a kernel since it was cleared.
struct Report {
    std::map<std::string, Load> processes;
    std::map<std::string, Cycle> counts, marks, depths;

    // Keeps the latest cycle of what `name` marks.
    void mark(const char* name, Cycle now) { marks[name] = std::max(marks[name], now); }
    // Keeps the deepest of the FIFOs that `name` stands for.
    void note_depth(const char* name, Cycle depth) { depths[name] = std::max(depths[name], depth); }
};

inline Report& report() {
    static Report kept;
    return kept;
}

class Process {
   public:
    Cycle now;

    explicit Process(const char* name) : now(0), name_(name), iterations_(0) { current() = this; }
    Process(const Process&) = delete;
    ~Process() {
        Load& load = report().processes[name_];
        load.iterations = std::max(load.iterations, iterations_);
        load.ends = std::max(load.ends, now);
        current() = nullptr;
    }

    // Begins an iteration of a pipelined loop.
    void tick() {
        ++now;
        ++iterations_;
    }

    // The process that runs: they run one after the other, those that write a stream before the one that reads it.
    static Process*& current() {
        static Process* running = nullptr;
        return running;
    }

   private:
    const char* name_;
    Cycle iterations_;
};

}  // namespace simulation

#endif
