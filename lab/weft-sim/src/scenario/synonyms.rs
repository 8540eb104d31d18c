//! Other tools' names for some keys.

/// Their names and ours, for hints only.
pub(super) const SYNONYMS: [(&str, &str); 10] = [
    ("queues", "transmit_queues"),
    ("byte_queue_limit", "bql"),
    ("bandwidth", "rate"),
    ("latency", "delay"),
    ("runtime", "duration"),
    ("source", "from"),
    ("src", "from"),
    ("destination", "to"),
    ("dst", "to"),
    ("num_hosts", "hosts"),
];
