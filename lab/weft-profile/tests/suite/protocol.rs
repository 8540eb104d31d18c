//! The protocol between two hosts against what a peer may say: random bytes, messages with random values, and cut ones.

use proptest::prelude::*;
use weft_packet::mutation::mutate;
use weft_profile::hosts::fuzz_hosts;
use weft_profile::hosts::protocol::{
    self, ClientRequest, ClockName, EndCounts, Greeting, Half, LevelName, LoadName, MessageError, Receiver,
    ServerAnswer, SideSamples, StackTime, Text, TrialPart, VERSION, Welcome,
};
use weft_report::profile::{Category, Latency, SideTime, Sizes, SkbSizes};

fn text() -> impl Strategy<Value = Text> {
    ".{0,40}".prop_map(|text| Text::of(&text))
}

fn counts() -> impl Strategy<Value = EndCounts> {
    any::<[u64; 3]>().prop_map(|[acked, received, sent]| EndCounts {
        acked,
        received,
        sent,
        ..EndCounts::default()
    })
}

fn samples() -> impl Strategy<Value = SideSamples> {
    let time = any::<[f64; 3]>();
    let stacks = proptest::collection::vec((proptest::collection::vec(text(), 0..4), any::<f64>()), 0..4);
    (time, stacks, proptest::option::of(any::<f64>()), any::<u32>(), text()).prop_map(
        |([a, b, c], stacks, some, hz, name)| {
            let stack = |(frames, seconds)| StackTime { category: Category::Etc, frames, seconds };
            let sizes = Sizes { counts: vec![hz.into(); 3], mean: some };
            SideSamples {
                clock: ClockName::CpuClock,
                sample_hz: hz,
                time: SideTime {
                    user_s: a,
                    system_s: b,
                    softirq_s: c,
                    categories_s: [(Category::Skb, a)].into(),
                },
                foreign_s: b,
                interrupts_s: a,
                tool_s: c,
                lost_samples: u64::from(hz),
                probe_cores: some,
                cache_miss: some,
                sizes: Some(SkbSizes { copies: sizes, ..SkbSizes::default() }),
                latency: some.map(|p50| Latency { count: 1, p50, p99: p50 }),
                no_probes: Some(name.clone()),
                missing: [(name, a)].into(),
                stacks: stacks.into_iter().map(stack).collect(),
            }
        },
    )
}

fn answers() -> impl Strategy<Value = ServerAnswer> {
    let welcome = (any::<u32>(), text(), proptest::collection::vec(any::<u32>(), 0..5));
    prop_oneof![
        welcome.prop_map(|(protocol, name, processors)| ServerAnswer::Hello(Welcome {
            protocol,
            categories: name.clone(),
            kernel: name.clone(),
            boot: name,
            processors,
        })),
        any::<f64>().prop_map(|share| ServerAnswer::Watched { share }),
        proptest::collection::vec(any::<u16>(), 0..5).prop_map(|ports| ServerAnswer::Listening { ports }),
        Just(ServerAnswer::Begun),
        any::<bool>().prop_map(|changed| ServerAnswer::Levelled { changed }),
        Just(ServerAnswer::Ended),
        text().prop_map(|why| ServerAnswer::Refused { why }),
        counts().prop_map(ServerAnswer::Counted),
        (any::<u64>(), counts(), proptest::option::of(samples())).prop_map(|(span_ns, counts, samples)| {
            let samples = samples.map(Box::new);
            ServerAnswer::Measured(Half { span_ns, counts, packets_in: span_ns, waits: 0, samples })
        }),
    ]
}

fn requests() -> impl Strategy<Value = ClientRequest> {
    let receivers = proptest::collection::vec((any::<u32>(), 0_u32..1000), 0..5);
    prop_oneof![
        Just(ClientRequest::Watch),
        Just(ClientRequest::Level { level: Some(LevelName::TsoGro) }),
        Just(ClientRequest::Counts),
        Just(ClientRequest::End),
        (any::<u32>(), text(), any::<u32>()).prop_map(|(protocol, categories, sample_hz)| {
            ClientRequest::Hello(Greeting { protocol, categories, clock: Some(ClockName::Cycles), sample_hz })
        }),
        (receivers, any::<u64>(), any::<u64>()).prop_map(|(receivers, bytes, seconds)| {
            let receivers = receivers.into_iter().map(|(cpu, flows)| Receiver { cpu, flows }).collect();
            ClientRequest::Serve { load: LoadName::Requests(bytes), receivers, seconds }
        }),
        any::<u64>().prop_map(|span_ns| ClientRequest::Measure { part: TrialPart::Sampled, span_ns }),
    ]
}

/// The figures of an answer that was accepted.
fn figures(answer: &ServerAnswer) -> Vec<f64> {
    let ServerAnswer::Measured(Half { samples: Some(samples), .. }) = answer else { return Vec::new() };
    let time = &samples.time;
    let mut all = vec![
        time.user_s,
        time.system_s,
        time.softirq_s,
        samples.foreign_s,
        samples.interrupts_s,
        samples.tool_s,
    ];
    all.extend(time.categories_s.values().chain(samples.missing.values()));
    all.extend(samples.stacks.iter().map(|stack| stack.seconds));
    all.extend(samples.latency.iter().flat_map(|latency| [latency.p50, latency.p99]));
    all
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = protocol::request(&bytes);
        let _ = protocol::answer(&bytes);
    }

    #[test]
    fn a_message_is_read_as_it_was_written_or_refused(answer in answers(), request in requests()) {
        let line = protocol::line(&answer);
        if let Ok(read) = protocol::answer(&line) {
            prop_assert!(figures(&read).iter().all(|figure| *figure >= 0.0 && figure.is_finite()));
            prop_assert_eq!(&protocol::line(&read), &line);
        }
        let line = protocol::line(&request);
        if let Ok(read) = protocol::request(&line) {
            prop_assert_eq!(read, request);
        }
    }

    #[test]
    fn cut_and_changed_messages_are_no_panic(
        answer in answers(), request in requests(), at in any::<prop::sample::Index>(), byte in any::<u8>()
    ) {
        for line in [protocol::line(&answer), protocol::line(&request)] {
            let at = at.index(line.len());
            let mut changed = line.clone();
            changed[at] = byte;
            for bytes in [&line[..at], &changed] {
                let _ = protocol::answer(bytes);
                let _ = protocol::request(bytes);
            }
        }
    }
}

/// Lines of both sides, with values that are accepted.
fn corpus() -> Vec<Vec<u8>> {
    let name = || Text::of("skb_copy_datagram_iter");
    let samples = SideSamples {
        clock: ClockName::CpuClock,
        sample_hz: 999,
        time: SideTime { user_s: 0.1, categories_s: [(Category::Skb, 0.2)].into(), ..SideTime::default() },
        foreign_s: 0.01,
        interrupts_s: 0.03,
        tool_s: 0.02,
        lost_samples: 1,
        probe_cores: Some(0.001),
        cache_miss: None,
        sizes: Some(SkbSizes::default()),
        latency: Some(Latency { count: 9, p50: 1e-5, p99: 1e-4 }),
        no_probes: None,
        missing: [(name(), 0.5)].into(),
        stacks: vec![StackTime { category: Category::Etc, frames: vec![name(), name()], seconds: 0.3 }],
    };
    let answers = [
        ServerAnswer::Hello(Welcome {
            protocol: VERSION,
            categories: name(),
            kernel: name(),
            boot: name(),
            processors: vec![0, 1],
        }),
        ServerAnswer::Watched { share: 0.5 },
        ServerAnswer::Listening { ports: vec![5201, 5202] },
        ServerAnswer::Refused { why: Text::of("busy; try again later") },
        ServerAnswer::Counted(EndCounts { acked: 7, received: u64::MAX, ..EndCounts::default() }),
        ServerAnswer::Measured(Half {
            span_ns: 1_000_000_000,
            counts: EndCounts::default(),
            packets_in: 5,
            waits: 3,
            samples: Some(Box::new(samples)),
        }),
    ];
    let requests = [
        ClientRequest::Hello(Greeting {
            protocol: VERSION,
            categories: name(),
            clock: Some(ClockName::Cycles),
            sample_hz: 999,
        }),
        ClientRequest::Level { level: Some(LevelName::TsoGro) },
        ClientRequest::Serve {
            load: LoadName::Requests(4096),
            receivers: vec![Receiver { cpu: 1, flows: 3 }],
            seconds: 60,
        },
        ClientRequest::Measure { part: TrialPart::Sampled, span_ns: 1_000_000_000 },
        ClientRequest::End,
    ];
    answers.iter().map(protocol::line).chain(requests.iter().map(protocol::line)).collect()
}

/// The same inputs at each run. `make fuzz` looks for others.
#[test]
fn mutated_lines_never_break_the_readers() {
    let corpus = corpus();
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    let is_read = |line: &&[u8]| protocol::request(line).is_ok() || protocol::answer(line).is_ok();
    assert!(corpus.iter().all(is_read), "every line of the corpus is accepted");
    assert_eq!(mutate(1, &corpus, 20_000, fuzz_hosts), Ok(()));
    let canary = |line: &[u8]| {
        let fault = protocol::request(line).is_ok() && !corpus.contains(&line);
        assert!(!fault, "as if the reader broke on a request with other values");
    };
    assert!(mutate(1, &corpus, 20_000, canary).is_err(), "the canary must be found");
}

#[test]
fn lies_are_refused() {
    let hello = |protocol: u32, extra: &str| {
        let text = format!(
            "{{\"hello\":{{\"protocol\":{protocol},\"categories\":\"1\",\"clock\":null,\"sample_hz\":999{extra}}}}}"
        );
        protocol::request(text.as_bytes())
    };
    assert!(matches!(hello(VERSION, ""), Ok(ClientRequest::Hello(_))));
    assert!(matches!(hello(VERSION, ",\"more\":1"), Err(MessageError::Malformed(_))));
    assert!(hello(VERSION + 1, "").is_err());
    assert_eq!(hello(VERSION + 1, ",\"more\":1"), Err(MessageError::OtherVersion(u64::from(VERSION) + 1)));
    for text in [
        "",
        "{}",
        "null",
        "\"hello\"",
        "{\"serve\":{\"load\":\"bulk\",\"receivers\":[],\"seconds\":1}}",
        "{\"serve\":{\"load\":\"bulk\",\"receivers\":[{\"cpu\":0,\"flows\":0}],\"seconds\":1}}",
        "{\"serve\":{\"load\":\"bulk\",\"receivers\":[{\"cpu\":0,\"flows\":1}],\"seconds\":99999999}}",
        "{\"serve\":{\"load\":{\"requests\":0},\"receivers\":[{\"cpu\":0,\"flows\":1}],\"seconds\":9}}",
        "{\"measure\":{\"part\":\"bare\",\"span_ns\":0}}",
        "{\"measure\":{\"part\":\"bare\",\"span_ns\":-1}}",
    ] {
        assert!(protocol::request(text.as_bytes()).is_err(), "{text}");
    }
    for text in [
        "{\"watched\":{\"share\":-0.1}}",
        "{\"watched\":{\"share\":1e999}}",
        "{\"watched\":{\"share\":null}}",
        "{\"listening\":{\"ports\":[0]}}",
        "{\"listening\":{\"ports\":[70000]}}",
        "{\"refused\":{\"why\":\"\\u001b[2J\"}}",
    ] {
        assert!(protocol::answer(text.as_bytes()).is_err(), "{text}");
    }
    let long = format!("{{\"refused\":{{\"why\":\"{}\"}}}}", "x".repeat(protocol::TEXT_MAX + 1));
    assert!(protocol::answer(long.as_bytes()).is_err());
    let deep = "[".repeat(100_000);
    assert!(protocol::answer(deep.as_bytes()).is_err());
}
