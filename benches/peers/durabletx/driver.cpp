// The workloads of benches/workloads/threads/memories.rs on a transactional memory of durabletx, with the
// collections that come with these.
//
//   PM_FILE=FILE program swaps|set_hash|set_tree|queue KEYS
//
// Answers each line "THREADS PARAMETER SECONDS" of standard input with {"per_second":...}: the operations of
// all threads.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>
#include <unistd.h>

#if defined TRINITY
#include "ptms/trinity/TrinityVRTL2.hpp"
namespace memory = trinityvrtl2;
using Memory = memory::Trinity;
#elif defined QUADRA
#include "ptms/quadra/QuadraVRFC.hpp"
namespace memory = quadravrfc;
using Memory = memory::Quadra;
#elif defined ROMULUS
#include "ptms/romuluslr/RomulusLR.hpp"
namespace memory = romuluslr;
struct Memory : memory::RomulusLR {
    struct tmbase {};
};
static const char* VFILE_NAME = "";
#endif
#include "pdatastructures/TMBTree.hpp"
#include "pdatastructures/TMHashMap.hpp"
#include "pdatastructures/queues/TMLinkedListQueueByRef.hpp"

#if !defined ROMULUS
using memory::VFILE_NAME;
#endif
using Word = memory::persist<uint64_t>;

// splitmix64
struct Rng {
    uint64_t state;
    uint64_t next() {
        uint64_t z = state += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    uint64_t scaled(uint64_t n) { return (unsigned __int128)next() * n >> 64; }
};

static uint64_t key(uint64_t i) { return Rng{i}.next(); }

[[noreturn]] static void fail(const char* what) {
    std::cerr << "the result is wrong: " << what << std::endl;
    std::_Exit(1);
}

// What a thread does again and again. Returns how many operations it was.
using Work = std::function<uint64_t(Rng&, uint64_t parameter)>;

// Operations per second, after a quarter of the time to warm up.
static double rate(const Work& work, unsigned threads, uint64_t parameter, double seconds) {
    struct alignas(128) Done {
        std::atomic<uint64_t> n{0};
    };
    std::vector<Done> done(threads);
    std::atomic<bool> stop{false};
    std::vector<std::thread> running;
    for (unsigned t = 0; t < threads; t++) {
        running.emplace_back([&, t] {
            Rng rng{42 + t};
            while (!stop.load(std::memory_order_relaxed)) {
                uint64_t more = 0;
                for (int i = 0; i < 16; i++) more += work(rng, parameter);
                done[t].n.fetch_add(more, std::memory_order_relaxed);
            }
        });
    }
    auto sum = [&] {
        uint64_t sum = 0;
        for (auto& each : done) sum += each.n.load(std::memory_order_relaxed);
        return sum;
    };
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds / 4));
    auto start = std::chrono::steady_clock::now();
    uint64_t before = sum();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    uint64_t after = sum();
    stop = true;
    for (auto& thread : running) thread.join();
    return (after - before) / took.count();
}

struct Workload {
    Work work;
    std::function<void()> check;
};

static Workload swaps(uint64_t n) {
    static Word* array;
    static uint64_t size;
    size = n;
    Memory::updateTx([] { array = (Word*)Memory::pmalloc(size * sizeof(Word)); });
    for (uint64_t from = 0; from < n; from += 1000) {
        Memory::updateTx([=] {
            for (uint64_t i = from; i < from + 1000 && i < size; i++) array[i] = i;
        });
    }
    Work work = [](Rng& rng, uint64_t swaps) {
        Rng begun = rng; // for the transaction may be run again
        Memory::updateTx([&] {
            rng = begun;
            for (uint64_t k = 0; k < swaps; k++) {
                Word &a = array[rng.scaled(size)], &b = array[rng.scaled(size)];
                uint64_t x = a.pload(), y = b.pload();
                a = y;
                b = x;
            }
        });
        return swaps;
    };
    auto check = [] {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < size; i++) Memory::readTx([&, i] { sum += array[i].pload(); });
        if (sum != size * (size - 1) / 2) fail("swaps");
    };
    return {work, check};
}

template <typename Set> static Workload set(uint64_t n) {
    static Set* set;
    static uint64_t size;
    size = n;
    Memory::updateTx([] { set = Memory::template tmNew<Set>(); });
    for (uint64_t i = 0; i < n; i++) set->add(key(i));
    Work work = [](Rng& rng, uint64_t updates) -> uint64_t {
        if (rng.scaled(100) < updates) {
            uint64_t k = key(rng.scaled(size));
            if (set->remove(k)) set->add(k);
        } else {
            for (int i = 0; i < 2; i++) {
                bool found = set->contains(key(rng.scaled(size)));
                asm volatile("" : : "r"(found)); // or else the compiler leaves the lookup out
            }
        }
        return 2;
    };
    auto check = [] {
        for (uint64_t i = 0; i < size; i += size / 1000 + 1) {
            if (!set->contains(key(i)) || set->contains(key(size + i))) fail("set");
        }
    };
    return {work, check};
}

static Workload queue(uint64_t) {
    using Queue = TMLinkedListQueueByRef<uint64_t, Memory, memory::persist>;
    static Queue* queue;
    static uint64_t item, filled = 1000;
    Memory::updateTx([] { queue = Memory::template tmNew<Queue>(); });
    for (uint64_t i = 0; i < filled; i++) queue->enqueue(&item);
    Work work = [](Rng&, uint64_t) -> uint64_t {
        queue->enqueue(&item);
        if (!queue->dequeue()) fail("queue");
        return 2;
    };
    auto check = [] {
        for (uint64_t i = 0; i < filled; i++) {
            if (!queue->dequeue()) fail("queue");
        }
        if (queue->dequeue()) fail("queue");
        for (uint64_t i = 0; i < filled; i++) queue->enqueue(&item);
    };
    return {work, check};
}

int main(int, char** args) {
    // They are mapped, and nobody else shall find them.
    unlink(getenv("PM_FILE"));
    unlink(VFILE_NAME);
    std::string name = args[1];
    uint64_t n = std::stoull(args[2]);
    Workload workload = name == "swaps"      ? swaps(n)
                        : name == "set_hash" ? set<TMHashMap<uint64_t, uint64_t, Memory, memory::persist>>(n)
                        : name == "set_tree" ? set<TMBTree<uint64_t, Memory, memory::persist>>(n)
                                             : queue(n);
    unsigned threads;
    uint64_t parameter;
    double seconds;
    while (std::cin >> threads >> parameter >> seconds) {
        double per_second = rate(workload.work, threads, parameter, seconds);
        workload.check();
        std::cout << "{\"per_second\":" << std::fixed << per_second << "}" << std::endl;
    }
}
