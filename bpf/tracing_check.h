/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tracing check shares with crates/weft-titan/src/tracing_check.rs. */
#ifndef WEFT_TRACING_CHECK_H
#define WEFT_TRACING_CHECK_H

#include <linux/types.h>

/* The read-only data of the program. */
struct weft_tracing_check_config {
	__u32 device; /* ifindex */
	__u32 netns;  /* the inode number of its network namespace */
};

struct weft_tracing_check {
	__u64 packets; /* seen by the program */
};

_Static_assert(sizeof(struct weft_tracing_check_config) == 8, "config");
_Static_assert(sizeof(struct weft_tracing_check) == 8, "check");
#endif
