// The hold model on ns-3: so many events are pending, and each one that runs schedules one more.
//
// This measures the event queue and the call of an event, nothing else (Jones, "An empirical comparison of
// priority-queue and event-set implementations", CACM 1986). The delays are exponentially distributed and drawn before
// the clock starts, so that drawing them is not part of the figure.

#include "ns3_common.h"

#include <cmath>
#include <random>
#include <vector>

using namespace ns3;

namespace
{

// Small enough to stay in a processor's cache beside the events.
constexpr size_t DELAYS = 16384;

std::vector<uint32_t> g_delays; // nanoseconds
size_t g_next = 0;
uint64_t g_ran = 0;
uint64_t g_warm_up = 0;
uint64_t g_last = 0;
double g_start = 0;
double g_end = 0;

Time
NextDelay()
{
    g_next = (g_next + 1) % DELAYS;
    return NanoSeconds(g_delays[g_next]);
}

void
Hold()
{
    ++g_ran;
    if (g_ran == g_warm_up)
    {
        g_start = peers::Now();
    }
    else if (g_ran == g_last)
    {
        g_end = peers::Now();
        Simulator::Stop();
        return;
    }
    Simulator::Schedule(NextDelay(), &Hold);
}

void
DrawDelays(double mean_ns, uint64_t seed)
{
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> delay(1.0 / mean_ns);
    g_delays.reserve(DELAYS);
    for (size_t i = 0; i < DELAYS; ++i)
    {
        g_delays.push_back(static_cast<uint32_t>(std::llround(delay(random))));
    }
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string scheduler = "map";
    uint64_t pending = 1000;
    uint64_t events = 5000000;
    double mean_ns = 1000;
    uint64_t seed = 1;

    CommandLine cmd(__FILE__);
    cmd.AddValue("scheduler", "map, heap, calendar or priority-queue", scheduler);
    cmd.AddValue("pending", "Events that are pending at any time", pending);
    cmd.AddValue("events", "Events that are measured", events);
    cmd.AddValue("mean-ns", "Mean of the delays in nanoseconds", mean_ns);
    cmd.AddValue("seed", "Seed of the delays", seed);
    cmd.Parse(argc, argv);
    if (pending == 0 || events == 0 || !(mean_ns > 0) || mean_ns > 1e8)
    {
        std::fprintf(stderr, "error: pending, events and mean-ns must be positive, mean-ns at most 1e8\n");
        return 2;
    }

    DrawDelays(mean_ns, seed);
    peers::UseScheduler(scheduler);
    // Every event has been replaced a few times before it counts: the times are then spread as they stay.
    g_warm_up = 3 * pending;
    g_last = g_warm_up + events;
    for (uint64_t i = 0; i < pending; ++i)
    {
        Simulator::Schedule(NextDelay(), &Hold);
    }
    Simulator::Run();
    double wall_s = g_end - g_start;
    std::printf("{\"case\":\"hold-%" PRIu64 "\",\"scheduler\":\"%s\",\"events\":%" PRIu64
                ",\"wall_s\":%.6f,\"events_per_s\":%.1f,\"mean_ns\":%.0f,\"version\":\"%s\",\"profile\":\"%s\"}\n",
                pending, scheduler.c_str(), events, wall_s, events / wall_s, mean_ns, NS3_VERSION,
                ns3::Version::BuildProfile().c_str());
    Simulator::Destroy();
    return 0;
}
