// Two hosts and a link of 10 Gb/s with fq_codel, as both network cases have it.
#ifndef WEFTLINE_NS3_NETWORK_H
#define WEFTLINE_NS3_NETWORK_H

#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

namespace peers
{

// 10 Gb/s as a full packet of 1500 bytes meets it on Ethernet: there 38 bytes come to it, and 2 on ns-3's link.
inline constexpr const char* LINK_RATE = "9765929779bps";

struct TwoHosts
{
    ns3::NodeContainer hosts;
    ns3::Ipv4InterfaceContainer interfaces;
};

// fq_codel is at both ends, with ns-3's own parameters, which are Linux's: 10240 packets, 1024 queues, 5 ms, 100 ms.
// ns-3 computes no checksums unless told to, and it is not told to.
// `delay` is that of the link, one way; it must be that of our case.
inline TwoHosts
BuildTwoHosts(const char* delay)
{
    using namespace ns3;
    TwoHosts net;
    net.hosts.Create(2);

    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(LINK_RATE));
    link.SetChannelAttribute("Delay", StringValue(delay));
    NetDeviceContainer devices = link.Install(net.hosts);

    InternetStackHelper stack;
    stack.Install(net.hosts);

    TrafficControlHelper qdisc;
    qdisc.SetRootQueueDisc(FqCoDelQueueDisc::GetTypeId().GetName());
    qdisc.Install(devices);

    // RFC 5737's network for examples; nothing leaves the program.
    Ipv4AddressHelper addresses("192.0.2.0", "/24");
    net.interfaces = addresses.Assign(devices);
    return net;
}

} // namespace peers

#endif
