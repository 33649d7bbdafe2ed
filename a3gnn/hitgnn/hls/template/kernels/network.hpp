// The routing network between scatter and gather units: a butterfly of log2(UNITS) stages of splits and merges.
#ifndef A3GNN_NETWORK_HPP
#define A3GNN_NETWORK_HPP

#include <hls_stream.h>

#include "cycles.hpp"
#include "types.hpp"

constexpr int log2_of(int value) { return value < 2 ? 0 : 1 + log2_of(value / 2); }

const int STAGES = log2_of(UNITS);

// Sends each update along its link, or to the link that differs in the bit `stage`, as its address has that bit.
inline void split(int stage, unsigned link, hls::stream<Update>& in, hls::stream<Update>& straight,
                  hls::stream<Update>& crossed) {
    PROCESS("split");
    bool open = true;
    while (open) {
#pragma HLS pipeline II = 1
        CYCLE;
        const Update update = in.read();
        const bool stays = ((update.address ^ link) >> stage & 1) == 0;
        if (update.last || stays) straight.write(update);
        if (update.last || !stays) crossed.write(update);
        open = !update.last;
    }
}

// Joins two links into one, an update per cycle, in turn where both have one.
inline void merge(hls::stream<Update>& straight, hls::stream<Update>& crossed, hls::stream<Update>& out) {
    PROCESS("merge");
    Update update = Update();
    int open = 2;
    bool prefers_crossed = false;
    while (open > 0) {
#pragma HLS pipeline II = 1
        CYCLE;
        const bool takes_crossed = !crossed.empty() && (prefers_crossed || straight.empty());
        if (takes_crossed || !straight.empty()) {
            update = takes_crossed ? crossed.read() : straight.read();
            prefers_crossed = !takes_crossed;
            if (update.last) {
                --open;
            } else {
                out.write(update);
            }
        }
    }
    update.last = true;
    out.write(update);
}

// Brings every update from links[0], where its scatter unit wrote it, to links[STAGES][address % UNITS].
inline void route(hls::stream<Update> links[STAGES + 1][UNITS]) {
#pragma HLS inline
    hls::stream<Update> straight[STAGES + 1][UNITS], crossed[STAGES + 1][UNITS];
#pragma HLS stream variable = straight depth = FIFO_DEPTH
#pragma HLS stream variable = crossed depth = FIFO_DEPTH
    for (int stage = 0; stage < STAGES; ++stage) {
#pragma HLS unroll
        for (unsigned link = 0; link < UNITS; ++link) {
#pragma HLS unroll
            split(stage, link, links[stage][link], straight[stage][link], crossed[stage][link]);
            NOTE_DEPTH("network", links[stage][link]);
        }
        for (unsigned link = 0; link < UNITS; ++link) {
#pragma HLS unroll
            const unsigned other = link ^ (1u << stage);
            merge(straight[stage][link], crossed[stage][other], links[stage + 1][link]);
            NOTE_DEPTH("network", straight[stage][link]);
            NOTE_DEPTH("network", crossed[stage][other]);
        }
    }
}

#endif
