/* Prints receive rules as the system's header lays them out: a name and the bytes of struct ethtool_rxnfc in
 * hexadecimal on each line. codec.rs has the same rules under the same names. */
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <stdio.h>
#include <string.h>

static struct ethtool_rxnfc rule;

static void begin(__u32 flow_type, __u64 cookie, __u32 location)
{
	memset(&rule, 0, sizeof(rule));
	rule.fs.flow_type = flow_type;
	rule.fs.ring_cookie = cookie;
	rule.fs.location = location;
}

static void show(const char *name)
{
	const unsigned char *bytes = (const unsigned char *)&rule;

	printf("%s ", name);
	for (size_t i = 0; i < sizeof(rule); i++)
		printf("%02x", bytes[i]);
	printf("\n");
}

static void six(const char *text, void *address)
{
	inet_pton(AF_INET6, text, address);
}

int main(void)
{
	begin(TCP_V4_FLOW, 2, 7);
	rule.fs.h_u.tcp_ip4_spec.ip4src = htonl(0x0a010203);
	rule.fs.m_u.tcp_ip4_spec.ip4src = htonl(0xffffff00);
	rule.fs.h_u.tcp_ip4_spec.ip4dst = htonl(0xc0a80001);
	rule.fs.m_u.tcp_ip4_spec.ip4dst = htonl(0xffffffff);
	rule.fs.h_u.tcp_ip4_spec.psrc = htons(1024);
	rule.fs.m_u.tcp_ip4_spec.psrc = htons(0xfc00);
	rule.fs.h_u.tcp_ip4_spec.pdst = htons(443);
	rule.fs.m_u.tcp_ip4_spec.pdst = htons(0xffff);
	rule.fs.h_u.tcp_ip4_spec.tos = 0x2e;
	rule.fs.m_u.tcp_ip4_spec.tos = 0xfc;
	show("tcp4");

	begin(UDP_V6_FLOW, RX_CLS_FLOW_DISC, RX_CLS_LOC_ANY);
	six("2001:db8::1", rule.fs.h_u.udp_ip6_spec.ip6src);
	six("ffff:ffff::", rule.fs.m_u.udp_ip6_spec.ip6src);
	six("2001:db8::2", rule.fs.h_u.udp_ip6_spec.ip6dst);
	six("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", rule.fs.m_u.udp_ip6_spec.ip6dst);
	rule.fs.h_u.udp_ip6_spec.psrc = htons(53);
	rule.fs.m_u.udp_ip6_spec.psrc = htons(0xffff);
	rule.fs.h_u.udp_ip6_spec.pdst = htons(5353);
	rule.fs.m_u.udp_ip6_spec.pdst = htons(0xffff);
	rule.fs.h_u.udp_ip6_spec.tclass = 4;
	rule.fs.m_u.udp_ip6_spec.tclass = 0xff;
	show("udp6-drop");

	begin(SCTP_V4_FLOW | FLOW_RSS, 4, RX_CLS_LOC_FIRST);
	rule.fs.h_u.sctp_ip4_spec.pdst = htons(36412);
	rule.fs.m_u.sctp_ip4_spec.pdst = htons(0xffff);
	rule.rss_context = 3;
	show("sctp4-context");

	begin(IP_USER_FLOW | FLOW_EXT, (2ULL << ETHTOOL_RX_FLOW_SPEC_RING_VF_OFF) | 5, RX_CLS_LOC_LAST);
	rule.fs.h_u.usr_ip4_spec.ip4src = htonl(0x0a000000);
	rule.fs.m_u.usr_ip4_spec.ip4src = htonl(0xff000000);
	rule.fs.h_u.usr_ip4_spec.l4_4_bytes = htonl(0x01020304);
	rule.fs.m_u.usr_ip4_spec.l4_4_bytes = htonl(0xffffffff);
	rule.fs.h_u.usr_ip4_spec.tos = 8;
	rule.fs.m_u.usr_ip4_spec.tos = 0xff;
	rule.fs.h_u.usr_ip4_spec.ip_ver = ETH_RX_NFC_IP4;
	rule.fs.h_u.usr_ip4_spec.proto = 47;
	rule.fs.m_u.usr_ip4_spec.proto = 0xff;
	rule.fs.h_ext.vlan_etype = htons(0x8100);
	rule.fs.m_ext.vlan_etype = htons(0xffff);
	rule.fs.h_ext.vlan_tci = htons(100);
	rule.fs.m_ext.vlan_tci = htons(0x0fff);
	rule.fs.h_ext.data[0] = htonl(0x11111111);
	rule.fs.m_ext.data[0] = htonl(0xffffffff);
	rule.fs.h_ext.data[1] = htonl(0x22222222);
	rule.fs.m_ext.data[1] = htonl(0x0000ffff);
	show("ip4-vlan-function");

	begin(IPV6_USER_FLOW | FLOW_MAC_EXT, RX_CLS_FLOW_WAKE, 1);
	six("2001:db8::3", rule.fs.h_u.usr_ip6_spec.ip6dst);
	six("ffff:ffff:ffff::", rule.fs.m_u.usr_ip6_spec.ip6dst);
	rule.fs.h_u.usr_ip6_spec.l4_4_bytes = htonl(0x05060708);
	rule.fs.m_u.usr_ip6_spec.l4_4_bytes = htonl(0xffff0000);
	rule.fs.h_u.usr_ip6_spec.tclass = 7;
	rule.fs.m_u.usr_ip6_spec.tclass = 0xff;
	rule.fs.h_u.usr_ip6_spec.l4_proto = 58;
	rule.fs.m_u.usr_ip6_spec.l4_proto = 0xff;
	memcpy(rule.fs.h_ext.h_dest, "\x02\x00\x00\x00\x00\x2a", 6);
	memcpy(rule.fs.m_ext.h_dest, "\xff\xff\xff\xff\xff\xff", 6);
	show("ip6-mac-wake");

	begin(ETHER_FLOW, 0, 0);
	memcpy(rule.fs.h_u.ether_spec.h_dest, "\x02\x00\x00\x00\x00\x01", 6);
	memcpy(rule.fs.m_u.ether_spec.h_dest, "\xff\xff\xff\xff\xff\xff", 6);
	memcpy(rule.fs.h_u.ether_spec.h_source, "\x02\x00\x00\x00\x00\x02", 6);
	memcpy(rule.fs.m_u.ether_spec.h_source, "\xff\xff\xff\x00\x00\x00", 6);
	rule.fs.h_u.ether_spec.h_proto = htons(0x88f7);
	rule.fs.m_u.ether_spec.h_proto = htons(0xffff);
	show("ether");

	begin(ESP_V4_FLOW, 1, 9);
	rule.fs.h_u.esp_ip4_spec.spi = htonl(0x1234);
	rule.fs.m_u.esp_ip4_spec.spi = htonl(0xffffffff);
	show("esp4");
	return 0;
}
