// What the ns-3 programs share: choosing a scheduler, the clock, one line of JSON.
#ifndef WEFTLINE_NS3_COMMON_H
#define WEFTLINE_NS3_COMMON_H

#include "ns3/core-module.h"
#include "ns3/version.h"

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

namespace peers
{

// Makes ns-3 keep its pending events in the structure called `name`. `map` is what ns-3 takes by itself.
inline void
UseScheduler(const std::string& name)
{
    static const std::map<std::string, ns3::TypeId> types = {
        {"map", ns3::MapScheduler::GetTypeId()},
        {"heap", ns3::HeapScheduler::GetTypeId()},
        {"calendar", ns3::CalendarScheduler::GetTypeId()},
        {"priority-queue", ns3::PriorityQueueScheduler::GetTypeId()},
    };
    auto found = types.find(name);
    if (found == types.end())
    {
        std::fprintf(stderr, "error: no scheduler '%s'; there are map, heap, calendar, priority-queue\n", name.c_str());
        std::exit(2);
    }
    ns3::ObjectFactory factory;
    factory.SetTypeId(found->second);
    ns3::Simulator::SetScheduler(factory);
}

// Seconds of a clock that is never set back.
inline double
Now()
{
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

// Simulated seconds that no goodput is taken from: slow start, and before it resolving the address.
inline constexpr double WARM_UP = 0.05;

// Bytes that had been received when the warm-up ended.
inline uint64_t g_warm_bytes = 0;

// Takes note of what `received` says when the warm-up ends.
inline void
NoteWarmUp(std::function<uint64_t()> received)
{
    ns3::Simulator::Schedule(ns3::Seconds(WARM_UP), [received]() { g_warm_bytes = received(); });
}

// Runs the simulation for `seconds` of its time; returns how long that took, in seconds of wall time.
inline double
RunFor(double seconds)
{
    ns3::Simulator::Stop(ns3::Seconds(seconds));
    double start = Now();
    ns3::Simulator::Run();
    return Now() - start;
}

// What a run of a network says of itself.
struct NetworkRun
{
    const char* name;      // of the case
    std::string scheduler; // of ns-3's events
    uint64_t events;       // that ns-3 ran
    double wall_s;
    double sim_s;
    uint64_t bytes;        // that applications received
    uint32_t packet_bytes; // of application data in a full packet
};

inline void
Print(const NetworkRun& run)
{
    uint64_t packets = run.bytes / run.packet_bytes;
    std::printf("{\"case\":\"%s\",\"scheduler\":\"%s\",\"events\":%" PRIu64 ",\"wall_s\":%.6f,\"events_per_s\":%.1f,"
                "\"sim_s\":%.6f,\"packets\":%" PRIu64 ",\"packets_per_s\":%.1f,\"sim_s_per_wall_s\":%.6f,"
                "\"goodput_bps\":%.0f,\"version\":\"%s\",\"profile\":\"%s\"}\n",
                run.name, run.scheduler.c_str(), run.events, run.wall_s, run.events / run.wall_s, run.sim_s, packets,
                packets / run.wall_s, run.sim_s / run.wall_s,
                (run.bytes - g_warm_bytes) * 8.0 / (run.sim_s - WARM_UP), NS3_VERSION,
                ns3::Version::BuildProfile().c_str());
}

} // namespace peers

#endif
