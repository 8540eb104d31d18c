/* The speed of DPDK's rte_sched in a closed loop: dequeue a burst, enqueue as many. One line of JSON on standard output.
 *
 * rte_sched --pipes=N --classes=1..13 --refill=same|shuffled --per-queue=N --packets=N
 *
 * One port, one subport, N pipes of 16 queues. All limits are configured and none binds. Of the last class, best effort,
 * the four queues count as one class and are used in turn. Packets are struct rte_mbuf without data; both sides of the
 * comparison touch 128 bytes per packet. crates/weft-sched/examples/hqos.rs is our side. */
#include <inttypes.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_sched.h>
#include <rte_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BURST 32
/* Bytes per second: more than any run reaches, within what the port's clock can express. */
#define RATE UINT64_C(100000000000)
#define BUCKET 1000000
#define PERIOD_MS 10
#define CLASSES RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE

static void fail(const char *what) {
	fprintf(stderr, "rte_sched: %s\n", what);
	exit(1);
}

struct options {
	uint32_t pipes, classes, per_queue;
	uint64_t packets;
	int shuffled;
};

static struct options options_of(int argc, char **argv) {
	struct options o = {.pipes = 64, .classes = 4, .per_queue = 1, .packets = 4000000};
	for (int i = 1; i < argc; i++) {
		if (sscanf(argv[i], "--pipes=%" SCNu32, &o.pipes) == 1 || sscanf(argv[i], "--classes=%" SCNu32, &o.classes) == 1 ||
		    sscanf(argv[i], "--per-queue=%" SCNu32, &o.per_queue) == 1 ||
		    sscanf(argv[i], "--packets=%" SCNu64, &o.packets) == 1)
			continue;
		if (!strcmp(argv[i], "--refill=same"))
			o.shuffled = 0;
		else if (!strcmp(argv[i], "--refill=shuffled"))
			o.shuffled = 1;
		else
			fail("unknown option");
	}
	if (!o.pipes || (o.pipes & (o.pipes - 1)) || !o.classes || o.classes > CLASSES || !o.per_queue || o.per_queue > 32)
		fail("pipes must be a power of two, classes 1 to 13, per-queue 1 to 32");
	return o;
}

static struct rte_sched_port *port_of(uint32_t pipes) {
	static struct rte_sched_pipe_params pipe = {
		.tb_rate = RATE, .tb_size = BUCKET, .tc_period = PERIOD_MS, .tc_ov_weight = 1};
	static struct rte_sched_subport_profile_params profile = {.tb_rate = RATE, .tb_size = BUCKET, .tc_period = PERIOD_MS};
	struct rte_sched_subport_params subport = {
		.n_pipes_per_subport_enabled = pipes, .pipe_profiles = &pipe, .n_pipe_profiles = 1, .n_max_pipe_profiles = 1};
	struct rte_sched_port_params params = {
		.name = "port", .socket = 0, .rate = RATE, .mtu = 1522, .frame_overhead = RTE_SCHED_FRAME_OVERHEAD_DEFAULT,
		.n_subports_per_port = 1, .subport_profiles = &profile, .n_subport_profiles = 1, .n_max_subport_profiles = 1,
		.n_pipes_per_subport = pipes};
	for (int i = 0; i < CLASSES; i++) {
		pipe.tc_rate[i] = profile.tc_rate[i] = RATE;
		subport.qsize[i] = 64;
	}
	for (int i = 0; i < RTE_SCHED_BE_QUEUES_PER_PIPE; i++)
		pipe.wrr_weights[i] = 1;
	struct rte_sched_port *port = rte_sched_port_config(&params);
	if (!port)
		fail("rte_sched_port_config failed");
	if (rte_sched_subport_config(port, 0, &subport, 0))
		fail("rte_sched_subport_config failed");
	for (uint32_t i = 0; i < pipes; i++)
		if (rte_sched_pipe_config(port, 0, i, 0))
			fail("rte_sched_pipe_config failed");
	return port;
}

struct queue {
	uint32_t pipe, class, queue;
};

static uint64_t state = UINT64_C(0x9E3779B97F4A7C15);

static uint32_t below(uint32_t bound) {
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (uint32_t)(((state * UINT64_C(0x2545F4914F6CDD1D) >> 32) * bound) >> 32);
}

static void write_queue(struct rte_sched_port *port, struct rte_mbuf *packet, const struct queue *to) {
	rte_sched_port_pkt_write(port, packet, 0, to->pipe, to->class, to->queue, RTE_COLOR_GREEN);
}

int main(int argc, char **argv) {
	struct options o = options_of(argc, argv);
	char *eal[] = {argv[0], "--no-huge", "-m", "2048", "--no-pci", "--no-shconf", "--no-telemetry", "--log-level=1"};
	if (rte_eal_init(sizeof eal / sizeof *eal, eal) < 0)
		fail("rte_eal_init failed");
	struct rte_sched_port *port = port_of(o.pipes);
	uint32_t queues = o.pipes * o.classes, total = queues * o.per_queue;
	struct queue *order = calloc(queues, sizeof *order);
	struct rte_mbuf *packets = aligned_alloc(64, (size_t)total * sizeof *packets);
	if (!order || !packets)
		fail("out of memory");
	memset(packets, 0, (size_t)total * sizeof *packets);
	for (uint32_t i = 0; i < queues; i++) {
		/* From the most important class; best effort last. */
		uint32_t class = i % o.classes, pipe = i / o.classes;
		order[i] = (struct queue){pipe, class, class == CLASSES - 1 ? pipe % RTE_SCHED_BE_QUEUES_PER_PIPE : 0};
	}
	for (uint32_t i = 0; i < total; i++) {
		struct rte_mbuf *packet = &packets[i];
		packet->pkt_len = packet->data_len = 64;
		write_queue(port, packet, &order[i / o.per_queue]);
		if (rte_sched_port_enqueue(port, &packet, 1) != 1)
			fail("a packet was dropped");
	}
	for (uint32_t i = queues - 1; i > 0; i--) {
		uint32_t j = below(i + 1);
		struct queue swapped = order[i];
		order[i] = order[j], order[j] = swapped;
	}
	struct rte_mbuf *burst[BURST];
	uint64_t done = 0, warm = total > 1000000 ? total : 1000000, begin = 0, lost = 0;
	uint32_t at = 0;
	while (done < warm + o.packets) {
		if (begin == 0 && done >= warm)
			begin = rte_get_tsc_cycles();
		int count = rte_sched_port_dequeue(port, burst, BURST);
		for (int i = 0; o.shuffled && i < count; i++) {
			write_queue(port, burst[i], &order[at]);
			at = at + 1 == queues ? 0 : at + 1;
		}
		lost += count - rte_sched_port_enqueue(port, burst, count);
		done += count;
	}
	double seconds = (double)(rte_get_tsc_cycles() - begin) / rte_get_tsc_hz();
	/* A full queue drops; a shuffled list fills a queue only by chance. */
	printf("{\"pps\": %.0f, \"dropped\": %" PRIu64 ", \"version\": \"%s\"}\n", o.packets / seconds, lost, rte_version());
	return 0;
}
