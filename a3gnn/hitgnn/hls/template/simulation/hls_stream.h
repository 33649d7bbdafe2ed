// The C simulation's own <hls_stream.h>, in place of a vendor's: the same calls, with the cycle of each value.
//
// It is no vendor's code. A value that is written in cycle t can be read from cycle t + 1 on. read() waits for it, and
// empty() answers for the cycle in which the process is that asks.
#ifndef A3GNN_SIMULATION_HLS_STREAM_H
#define A3GNN_SIMULATION_HLS_STREAM_H

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "clock.hpp"

namespace hls {

template <typename T>
class stream {
   public:
    explicit stream(const char* name = "a stream") : name_(name), next_(0), come_(0), deepest_(0) {}
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;

    // Reads the next value; the process waits until it is there.
    T read() {
        if (next_ == values_.size()) {
            std::fprintf(stderr, "%s is read that nothing more is written to: it would wait for ever\n", name_);
            std::abort();
        }
        simulation::Cycle& now = clock();
        now = now < values_[next_].ready ? values_[next_].ready : now;
        return take();
    }

    bool empty() const { return next_ == values_.size() || values_[next_].ready > clock(); }

    void write(const T& value) { values_.push_back(Timed{value, clock() + 1}); }

    // The most values that were in the stream at once when one was read.
    simulation::Cycle deepest() const { return deepest_; }

   private:
    struct Timed {
        T value;
        simulation::Cycle ready;
    };

    static simulation::Cycle& clock() { return simulation::Process::current()->now; }

    T take() {
        while (come_ < values_.size() && values_[come_].ready <= clock()) ++come_;
        deepest_ = come_ - next_ > deepest_ ? come_ - next_ : deepest_;
        const T value = values_[next_++].value;
        if (next_ == values_.size()) {
            std::vector<Timed>().swap(values_);
            next_ = come_ = 0;
        }
        return value;
    }

    const char* name_;
    std::vector<Timed> values_;
    size_t next_, come_, deepest_;  // values read; values that had come by the last read
};

}  // namespace hls

#endif
