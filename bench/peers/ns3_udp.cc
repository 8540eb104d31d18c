// UDP at a constant 9 Gb/s over a link of 10 Gb/s on ns-3, through fq_codel.

#include "ns3_common.h"
#include "ns3_network.h"

#include "ns3/applications-module.h"

using namespace ns3;

namespace
{

// Of application data; 1500 bytes with the headers of UDP and IPv4.
constexpr uint32_t PAYLOAD = 1472;
// Of application data; the link carries 9.18 Gb/s with the headers.
constexpr const char* RATE = "9Gbps";
constexpr uint16_t PORT = 9;
// As in experiments/scenarios/udp-fq-codel.toml.
constexpr const char* LINK_DELAY = "1us";

} // namespace

int
main(int argc, char* argv[])
{
    std::string scheduler = "map";
    double seconds = 1;
    CommandLine cmd(__FILE__);
    cmd.AddValue("scheduler", "map, heap, calendar or priority-queue", scheduler);
    cmd.AddValue("seconds", "Simulated seconds", seconds);
    cmd.Parse(argc, argv);

    peers::UseScheduler(scheduler);
    peers::TwoHosts net = peers::BuildTwoHosts(LINK_DELAY);

    InetSocketAddress to(net.interfaces.GetAddress(1), PORT);
    OnOffHelper sender("ns3::UdpSocketFactory", to);
    sender.SetConstantRate(DataRate(RATE), PAYLOAD);
    sender.Install(net.hosts.Get(0));

    PacketSinkHelper sink("ns3::UdpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
    Ptr<PacketSink> received = DynamicCast<PacketSink>(sink.Install(net.hosts.Get(1)).Get(0));

    peers::NoteWarmUp([received]() { return received->GetTotalRx(); });
    double wall_s = peers::RunFor(seconds);
    peers::Print({"udp", scheduler, Simulator::GetEventCount(), wall_s, seconds, received->GetTotalRx(), PAYLOAD});
    Simulator::Destroy();
    return 0;
}
