/* The speed of DPDK's rte_sched in a closed loop: dequeue a burst, enqueue as many. One line of JSON on standard output.
 *
 * rte_sched --pipes=N --classes=1..13|16 --refill=same|shuffled|drain --per-queue=N --packets=N --lengths=64|mixed
 *           --limits=free|binding
 *
 * One port, one subport, N pipes of 16 queues. All limits are configured and none binds; with binding, those of every
 * second pipe do. Of the last class, best effort, the four queues count as one class and are used in turn; 16 classes are
 * all 16 queues. With drain all queues are filled in a shuffled order and then emptied, again and again. Packets are struct
 * rte_mbuf without data; both sides of the comparison touch 128 bytes per packet. lab/weft-sim/examples/hqos.rs is our
 * side. */
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
#define QUEUES RTE_SCHED_QUEUES_PER_PIPE
/* Of a pipe whose limit binds: bytes per second, and two frames. */
#define BOUND_RATE 100000
#define BOUND_BUCKET 3044
/* Dequeues without a packet after which a queue that should not be empty counts as stuck: some 100 ms. */
#define STUCK 10000000

static void fail(const char *what) {
	fprintf(stderr, "rte_sched: %s\n", what);
	exit(1);
}

struct options {
	uint32_t pipes, classes, per_queue;
	uint64_t packets;
	int shuffled, drain, mixed, binding;
};

static struct options options_of(int argc, char **argv) {
	struct options o = {.pipes = 64, .classes = 4, .per_queue = 1, .packets = 4000000};
	for (int i = 1; i < argc; i++) {
		if (sscanf(argv[i], "--pipes=%" SCNu32, &o.pipes) == 1 || sscanf(argv[i], "--classes=%" SCNu32, &o.classes) == 1 ||
		    sscanf(argv[i], "--per-queue=%" SCNu32, &o.per_queue) == 1 ||
		    sscanf(argv[i], "--packets=%" SCNu64, &o.packets) == 1)
			continue;
		if (!strcmp(argv[i], "--refill=same"))
			o.shuffled = o.drain = 0;
		else if (!strcmp(argv[i], "--refill=shuffled"))
			o.shuffled = 1, o.drain = 0;
		else if (!strcmp(argv[i], "--refill=drain"))
			o.shuffled = 0, o.drain = 1;
		else if (!strcmp(argv[i], "--lengths=64") || !strcmp(argv[i], "--lengths=mixed"))
			o.mixed = argv[i][10] == 'm';
		else if (!strcmp(argv[i], "--limits=free") || !strcmp(argv[i], "--limits=binding"))
			o.binding = argv[i][9] == 'b';
		else
			fail("unknown option");
	}
	if (!o.pipes || (o.pipes & (o.pipes - 1)) || !o.classes || (o.classes > CLASSES && o.classes != QUEUES) ||
	    !o.per_queue || o.per_queue > 32)
		fail("pipes must be a power of two, classes 1 to 13 or 16, per-queue 1 to 32");
	if (o.binding && (o.shuffled || o.drain || o.pipes < 2))
		fail("limits that bind need --refill=same and two pipes: elsewhere all packets would come to wait for them");
	return o;
}

static struct rte_sched_port *port_of(uint32_t pipes, int binding) {
	static struct rte_sched_pipe_params profiles[2] = {
		{.tb_rate = RATE, .tb_size = BUCKET, .tc_period = PERIOD_MS, .tc_ov_weight = 1},
		{.tb_rate = BOUND_RATE, .tb_size = BOUND_BUCKET, .tc_period = PERIOD_MS, .tc_ov_weight = 1}};
	static struct rte_sched_subport_profile_params profile = {.tb_rate = RATE, .tb_size = BUCKET, .tc_period = PERIOD_MS};
	struct rte_sched_subport_params subport = {
		.n_pipes_per_subport_enabled = pipes, .pipe_profiles = profiles, .n_pipe_profiles = 2, .n_max_pipe_profiles = 2};
	struct rte_sched_port_params params = {
		.name = "port", .socket = 0, .rate = RATE, .mtu = 1522, .frame_overhead = RTE_SCHED_FRAME_OVERHEAD_DEFAULT,
		.n_subports_per_port = 1, .subport_profiles = &profile, .n_subport_profiles = 1, .n_max_subport_profiles = 1,
		.n_pipes_per_subport = pipes};
	for (int i = 0; i < CLASSES; i++) {
		profiles[0].tc_rate[i] = profile.tc_rate[i] = RATE;
		/* A class's rate may not be above its pipe's. */
		profiles[1].tc_rate[i] = BOUND_RATE;
		subport.qsize[i] = 64;
	}
	for (int i = 0; i < RTE_SCHED_BE_QUEUES_PER_PIPE; i++)
		profiles[0].wrr_weights[i] = profiles[1].wrr_weights[i] = 1;
	struct rte_sched_port *port = rte_sched_port_config(&params);
	if (!port)
		fail("rte_sched_port_config failed");
	if (rte_sched_subport_config(port, 0, &subport, 0))
		fail("rte_sched_subport_config failed");
	for (uint32_t i = 0; i < pipes; i++)
		if (rte_sched_pipe_config(port, 0, i, binding && i % 2))
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

/* The queues that are used, pipe by pipe, from the most important class; best effort last. */
static struct queue queue_of(const struct options *o, uint32_t i) {
	uint32_t at = i % o->classes, pipe = i / o->classes;
	if (o->classes == QUEUES)
		return (struct queue){pipe, at < CLASSES ? at : CLASSES - 1, at < CLASSES ? 0 : at - CLASSES + 1};
	return (struct queue){pipe, at, at == CLASSES - 1 ? pipe % RTE_SCHED_BE_QUEUES_PER_PIPE : 0};
}

static uint32_t length(const struct options *o) {
	static const uint32_t lengths[4] = {64, 594, 1518, 1518};
	return o->mixed ? lengths[below(4)] : 64;
}

struct loop {
	struct options o;
	struct rte_sched_port *port;
	struct queue *order;
	struct rte_mbuf *packets;
	uint32_t queues, total, at;
	uint64_t lost;
};

/* Dequeues packets and enqueues as many. */
static void turn(struct loop *l, uint64_t packets) {
	struct rte_mbuf *burst[BURST];
	for (uint64_t done = 0, idle = 0; done < packets;) {
		int count = rte_sched_port_dequeue(l->port, burst, BURST);
		for (int i = 0; i < count; i++) {
			if (l->o.mixed)
				burst[i]->pkt_len = burst[i]->data_len = length(&l->o);
			if (!l->o.shuffled)
				continue;
			write_queue(l->port, burst[i], &l->order[l->at]);
			l->at = l->at + 1 == l->queues ? 0 : l->at + 1;
		}
		l->lost += count - rte_sched_port_enqueue(l->port, burst, count);
		done += count;
		idle = count ? 0 : idle + 1;
		if (idle > STUCK)
			fail("no packet leaves");
	}
}

/* Fills all queues in the shuffled order and empties them, until packets have left. Returns how many did. */
static uint64_t drain(struct loop *l, uint64_t packets) {
	struct rte_mbuf *burst[BURST];
	uint64_t done = 0;
	while (done < packets) {
		for (uint32_t i = 0; i < l->total;) {
			uint32_t count = 0;
			for (; count < BURST && i < l->total; count++, i++) {
				struct rte_mbuf *packet = burst[count] = &l->packets[i];
				packet->pkt_len = packet->data_len = length(&l->o);
				write_queue(l->port, packet, &l->order[i % l->queues]);
			}
			l->lost += count - rte_sched_port_enqueue(l->port, burst, count);
		}
		if (l->lost)
			fail("a packet was dropped");
		for (uint64_t left = l->total, idle = 0; left;) {
			int count = rte_sched_port_dequeue(l->port, burst, BURST);
			left -= count;
			idle = count ? 0 : idle + 1;
			if (idle > STUCK)
				fail("no packet leaves");
		}
		done += l->total;
	}
	return done;
}

static void fill(struct loop *l) {
	for (uint32_t i = 0; i < l->total; i++) {
		struct rte_mbuf *packet = &l->packets[i];
		packet->pkt_len = packet->data_len = length(&l->o);
		write_queue(l->port, packet, &l->order[i / l->o.per_queue]);
		if (rte_sched_port_enqueue(l->port, &packet, 1) != 1)
			fail("a packet was dropped");
	}
}

static void shuffle(struct loop *l) {
	for (uint32_t i = l->queues - 1; i > 0; i--) {
		uint32_t j = below(i + 1);
		struct queue swapped = l->order[i];
		l->order[i] = l->order[j], l->order[j] = swapped;
	}
}

int main(int argc, char **argv) {
	struct loop l = {.o = options_of(argc, argv)};
	char *eal[] = {argv[0], "--no-huge", "-m", "2048", "--no-pci", "--no-shconf", "--no-telemetry", "--log-level=1"};
	if (rte_eal_init(sizeof eal / sizeof *eal, eal) < 0)
		fail("rte_eal_init failed");
	l.port = port_of(l.o.pipes, l.o.binding);
	l.queues = l.o.pipes * l.o.classes, l.total = l.queues * l.o.per_queue;
	l.order = calloc(l.queues, sizeof *l.order);
	l.packets = aligned_alloc(64, (size_t)l.total * sizeof *l.packets);
	if (!l.order || !l.packets)
		fail("out of memory");
	memset(l.packets, 0, (size_t)l.total * sizeof *l.packets);
	for (uint32_t i = 0; i < l.queues; i++)
		l.order[i] = queue_of(&l.o, i);
	if (!l.o.drain)
		fill(&l);
	shuffle(&l);
	uint64_t warm = l.total > 1000000 ? l.total : 1000000, begin, packets = l.o.packets;
	if (l.o.drain) {
		drain(&l, warm);
		begin = rte_get_tsc_cycles();
		packets = drain(&l, packets);
	} else {
		turn(&l, warm);
		begin = rte_get_tsc_cycles();
		turn(&l, packets);
	}
	double seconds = (double)(rte_get_tsc_cycles() - begin) / rte_get_tsc_hz();
	/* A full queue drops; a shuffled list fills a queue only by chance. */
	printf("{\"pps\": %.0f, \"dropped\": %" PRIu64 ", \"version\": \"%s\"}\n", packets / seconds, l.lost, rte_version());
	return 0;
}
