// Where the simulation counts: each process has a clock, and each iteration of its pipelined loop is a cycle.
// A synthesis tool sees none of it.
#ifndef A3GNN_CYCLES_HPP
#define A3GNN_CYCLES_HPP

#ifdef __SYNTHESIS__
#define PROCESS(name)
#define CYCLE
#define COUNT(name)
#define MARK(name)
#define NOTE_DEPTH(name, fifo)
#else
#include "clock.hpp"
#define PROCESS(name) simulation::Process process_here(name)
#define CYCLE process_here.tick()
#define COUNT(name) ++simulation::report().counts[name]
#define MARK(name) simulation::report().mark(name, process_here.now)
#define NOTE_DEPTH(name, fifo) simulation::report().note_depth(name, (fifo).deepest())
#endif

#endif
