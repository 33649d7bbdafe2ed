#include "aggregate.hpp"

#include <hls_stream.h>

#include "cycles.hpp"
#include "network.hpp"

namespace {

const unsigned NONE = 0xffffffff;
const unsigned EDGES_PER_WORD = LANES * sizeof(float) / sizeof(Edge);
const unsigned DEALT = EDGES_PER_WORD < UNITS ? EDGES_PER_WORD : UNITS;  // edges per cycle: none of two to one unit

// Reads the row of each distinct source once, ahead of its use.
void read_rows(const Word* features, const Run* runs, unsigned num_runs, unsigned stride, unsigned first_word,
               unsigned num_words, hls::stream<Word>& rows, hls::stream<Run>& order) {
    PROCESS("read_rows");
    for (unsigned r = 0; r < num_runs; ++r) {
        const Run run = runs[r];
        order.write(run);
        for (unsigned w = 0; w < num_words; ++w) {
#pragma HLS pipeline II = 1
            CYCLE;
            COUNT("feature_words");
            rows.write(features[run.source * stride + first_word + w]);
        }
    }
}

// The Feature Duplicator: copies a row to each unit that has an edge of its source. Edges are dealt in turn, so these
// are as many units as the source has edges, from the one whose turn it is.
void duplicate(unsigned num_runs, unsigned num_words, hls::stream<Word>& rows, hls::stream<Run>& order,
               hls::stream<Word> copies[UNITS]) {
    PROCESS("duplicate");
    unsigned turn = 0;
    for (unsigned r = 0; r < num_runs; ++r) {
        const Run run = order.read();
        for (unsigned w = 0; w < num_words; ++w) {
#pragma HLS pipeline II = 1
            CYCLE;
            const Word word = rows.read();
            for (unsigned unit = 0; unit < UNITS; ++unit) {
#pragma HLS unroll
                if (((unit - turn) & (UNITS - 1)) < run.edges) copies[unit].write(word);
            }
        }
        turn += run.edges;
    }
}

// Deals edges to the units in turn, a word of memory (or an edge per unit, if that is less) per cycle.
void deal_edges(const Edge* edges, unsigned num_edges, hls::stream<Edge> dealt[UNITS]) {
    PROCESS("deal_edges");
    for (unsigned first = 0; first < num_edges; first += DEALT) {
#pragma HLS pipeline II = 1
        CYCLE;
        for (unsigned i = 0; i < DEALT; ++i) {
#pragma HLS unroll
            if (first + i < num_edges) dealt[(first + i) & (UNITS - 1)].write(edges[first + i]);
        }
    }
}

// A scatter unit: an edge's source's row, LANES values per cycle, weighted and sent to where it is summed.
// The row stays for the following edges of the same source; another source's is waited for.
void scatter(unsigned num_edges, unsigned num_words, hls::stream<Edge>& edges, hls::stream<Word>& copies,
             hls::stream<Update>& updates) {
    PROCESS("scatter");
    Word row[ROW_WORDS];
    Edge edge = {NONE, 0, 0.0f, 0};
    bool fresh = false;
    Update update;
    update.last = false;
    for (unsigned e = 0; e < num_edges; ++e) {
        for (unsigned w = 0; w < num_words; ++w) {
#pragma HLS pipeline II = 1
            CYCLE;
            if (w == 0) {
                const unsigned loaded = edge.source;
                edge = edges.read();
                fresh = edge.source != loaded;
            }
            if (fresh) row[w] = copies.read();
            for (int lane = 0; lane < LANES; ++lane) {
#pragma HLS unroll
                update.value.lane[lane] = edge.weight * row[w].lane[lane];
            }
            update.address = edge.destination * num_words + w;
            updates.write(update);
        }
    }
    update.last = true;
    updates.write(update);
}

// A gather unit: adds updates to the sums that it keeps, then sends the sums on and leaves zeros.
// A sum that is still in the adder can't be added to: the update waits.
void gather(unsigned num_slots, hls::stream<Update>& updates, Word bank[BANK_WORDS], hls::stream<Word>& sums) {
    PROCESS("gather");
    unsigned adding[ADD_LATENCY - 1];
#pragma HLS array_partition variable = adding complete
    for (int i = 0; i < ADD_LATENCY - 1; ++i) adding[i] = NONE;
    Update update = Update();
    bool held = false;
    while (!(held && update.last)) {
#pragma HLS pipeline II = 1
#pragma HLS dependence variable = bank inter distance = ADD_LATENCY true
        CYCLE;
        if (!held && !updates.empty()) {
            update = updates.read();
            held = true;
        }
        const unsigned slot = update.address / UNITS;
        bool waits = false;
        for (int i = 0; i < ADD_LATENCY - 1; ++i) {
#pragma HLS unroll
            waits |= adding[i] == slot;
        }
        const bool adds = held && !update.last && !waits;
        if (held && !update.last && waits) COUNT("adder_waits");
        for (int i = ADD_LATENCY - 2; i > 0; --i) {
#pragma HLS unroll
            adding[i] = adding[i - 1];
        }
        adding[0] = adds ? slot : NONE;
        if (adds) {
            for (int lane = 0; lane < LANES; ++lane) {
#pragma HLS unroll
                bank[slot].lane[lane] += update.value.lane[lane];
            }
            held = false;
        }
    }
    MARK("summed");
    for (unsigned slot = 0; slot < num_slots; ++slot) {
#pragma HLS pipeline II = 1
        CYCLE;
        sums.write(bank[slot]);
        bank[slot] = Word();
    }
}

void write_sums(Word* sums, unsigned num_destinations, unsigned stride, unsigned first_word, unsigned num_words,
                hls::stream<Word> results[UNITS]) {
    PROCESS("write_sums");
    unsigned address = 0;
    for (unsigned d = 0; d < num_destinations; ++d) {
        for (unsigned w = 0; w < num_words; ++w) {
#pragma HLS pipeline II = 1
            CYCLE;
            sums[d * stride + first_word + w] = results[address & (UNITS - 1)].read();
            ++address;
        }
    }
}

// How many of `total` that are dealt in turn fall to `unit`.
unsigned share(unsigned total, unsigned unit) { return (total + UNITS - 1 - unit) / UNITS; }

}  // namespace

void aggregate(const Word* features, const Edge* edges, const Run* runs, Word* sums, unsigned num_edges,
               unsigned num_runs, unsigned num_destinations, unsigned stride, unsigned first_word,
               unsigned num_words) {
#pragma HLS interface m_axi port = features bundle = features
#pragma HLS interface m_axi port = edges bundle = edges
#pragma HLS interface m_axi port = runs bundle = edges
#pragma HLS interface m_axi port = sums bundle = sums
#pragma HLS dataflow
    static Word banks[UNITS][BANK_WORDS];
#pragma HLS array_partition variable = banks dim = 1 complete
#pragma HLS bind_storage variable = banks type = RAM_2P impl = URAM
    hls::stream<Word> rows, copies[UNITS], results[UNITS];
    hls::stream<Run> order;
    hls::stream<Edge> dealt[UNITS];
    hls::stream<Update> links[STAGES + 1][UNITS];
#pragma HLS stream variable = rows depth = 2 * ROW_WORDS
#pragma HLS stream variable = copies depth = 2 * ROW_WORDS
#pragma HLS stream variable = links depth = FIFO_DEPTH
    read_rows(features, runs, num_runs, stride, first_word, num_words, rows, order);
    duplicate(num_runs, num_words, rows, order, copies);
    deal_edges(edges, num_edges, dealt);
    for (unsigned unit = 0; unit < UNITS; ++unit) {
#pragma HLS unroll
        scatter(share(num_edges, unit), num_words, dealt[unit], copies[unit], links[0][unit]);
    }
    route(links);
    for (unsigned unit = 0; unit < UNITS; ++unit) {
#pragma HLS unroll
        gather(share(num_destinations * num_words, unit), links[STAGES][unit], banks[unit], results[unit]);
        NOTE_DEPTH("network", links[STAGES][unit]);
    }
    write_sums(sums, num_destinations, stride, first_word, num_words, results);
}
