// Bulk TCP CUBIC flows that share a link of 10 Gb/s on ns-3, through fq_codel.

#include "ns3_common.h"
#include "ns3_network.h"

#include "ns3/applications-module.h"

using namespace ns3;

namespace
{

// 1500 bytes with the headers of TCP (with time stamps) and IPv4.
constexpr uint32_t MSS = 1448;
// Of a socket, each way: far above what the link and fq_codel's target of 5 ms hold (6.3 MB), so that it never limits.
constexpr uint32_t BUFFER = 64 << 20;
// What an application writes at a time. One segment is what suits ns-3 best, which keeps what is written as packets and
// otherwise cuts them: with 64 KiB it ran a fifth to a quarter slower.
constexpr uint32_t WRITE = MSS;
constexpr uint16_t FIRST_PORT = 5000;
// As in our case (lab/weft-experiments/src/bench_sim.rs).
constexpr const char* LINK_DELAY = "25us";

void
SetTcp()
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(MSS));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(BUFFER));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(BUFFER));
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string scheduler = "map";
    double seconds = 1;
    uint16_t flows = 12;
    CommandLine cmd(__FILE__);
    cmd.AddValue("scheduler", "map, heap, calendar or priority-queue", scheduler);
    cmd.AddValue("seconds", "Simulated seconds", seconds);
    cmd.AddValue("flows", "Flows", flows);
    cmd.Parse(argc, argv);

    peers::UseScheduler(scheduler);
    SetTcp();
    peers::TwoHosts net = peers::BuildTwoHosts(LINK_DELAY);

    ApplicationContainer sinks;
    for (uint16_t flow = 0; flow < flows; ++flow)
    {
        uint16_t port = FIRST_PORT + flow;
        BulkSendHelper sender("ns3::TcpSocketFactory", InetSocketAddress(net.interfaces.GetAddress(1), port));
        sender.SetAttribute("SendSize", UintegerValue(WRITE));
        sender.Install(net.hosts.Get(0));
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        sinks.Add(sink.Install(net.hosts.Get(1)));
    }

    auto received = [&sinks]() {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < sinks.GetN(); ++i)
        {
            bytes += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
        }
        return bytes;
    };
    peers::NoteWarmUp(received);
    double wall_s = peers::RunFor(seconds);
    uint64_t bytes = received();
    peers::Print({"tcp", scheduler, Simulator::GetEventCount(), wall_s, seconds, bytes, MSS});
    Simulator::Destroy();
    return 0;
}
