//! Loads a link with TCP flows and reports how they share it. `make test-kernels` runs it in an emulated machine.
//!
//! `queue_traffic serve ADDRESS:PORT` accepts connections, and reports to each flow the bytes received. `queue_traffic load ADDRESS:PORT
//! --flows N --seconds S [--warm W] [--latency]` sends on N connections for W seconds, and then for S seconds that are measured: it
//! prints the bytes of each flow that arrived in each second. With `--latency`, messages of 64 bytes make round trips at the same
//! time. The lines `counting` and `counted` mark the start and the end of the measured seconds.

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// The first byte of a connection, which is its kind.
const SINK: u8 = b's';
const ECHO: u8 = b'e';
const MESSAGE_LEN: usize = 64;
/// The size of a flow's writes and of the receiver's reads.
const CHUNK_LEN: usize = 64 << 10;
/// The interval of the receiver's reports. It bounds the error of a second's figure to the bytes that arrive in one interval.
const REPORT_EVERY: Duration = Duration::from_millis(20);
/// The pause between two messages, so that they add no load.
const MESSAGE_GAP: Duration = Duration::from_millis(5);

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve", address] => serve(address),
        ["load", address, options @ ..] => load(address, &Options::of(options)?),
        _ => Err("usage: queue_traffic serve ADDRESS:PORT | queue_traffic load ADDRESS:PORT --flows N \
                  --seconds S [--warm W] [--latency]"
            .into()),
    }
}

fn serve(address: &str) -> Done {
    let listener = TcpListener::bind(address)?;
    loop {
        let (stream, _) = listener.accept()?;
        thread::spawn(move || {
            // A load closes its connections when its time is over, in the middle of their data.
            let _ = attend(stream);
        });
    }
}

fn attend(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    if kind[0] == ECHO {
        let mut message = [0; MESSAGE_LEN];
        loop {
            stream.read_exact(&mut message)?;
            stream.write_all(&message)?;
        }
    }
    let (mut buffer, mut total) = (vec![0; CHUNK_LEN], 0_u64);
    let mut reported = Instant::now();
    loop {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        total += len as u64;
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            stream.write_all(&total.to_le_bytes())?;
        }
    }
}

struct Options {
    flows: usize,
    seconds: usize,
    warm: u64,
    latency: bool,
}

impl Options {
    fn of(words: &[&str]) -> Done<Options> {
        let mut options = Options { flows: 0, seconds: 0, warm: 2, latency: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} without a value"));
            match *word {
                "--flows" => options.flows = value()?.parse()?,
                "--seconds" => options.seconds = value()?.parse()?,
                "--warm" => options.warm = value()?.parse()?,
                "--latency" => options.latency = true,
                _ => return Err(format!("unknown option {word}").into()),
            }
        }
        if options.flows == 0 || options.seconds == 0 {
            return Err("--flows and --seconds are needed, and not 0".into());
        }
        Ok(options)
    }
}

/// The state shared by the threads of a load.
#[derive(Default)]
struct Run {
    /// The load is over: connections that end from here on were closed by this program.
    over: AtomicBool,
    /// Round trips are recorded from here on.
    counting: AtomicBool,
    /// Connections that ended early.
    lost: AtomicU32,
}

impl Run {
    fn note(&self, outcome: std::io::Result<()>) {
        if !self.over.load(Ordering::SeqCst) {
            self.lost.fetch_add(1, Ordering::SeqCst);
            let what = outcome.err().map_or("closed".to_owned(), |error| error.to_string());
            eprintln!("a connection ended early: {what}");
        }
    }
}

fn load(address: &str, options: &Options) -> Done {
    let mut streams = Vec::new();
    for _ in 0..options.flows {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(&[SINK])?;
        streams.push(stream);
    }
    let mut pings = None;
    if options.latency {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.write_all(&[ECHO])?;
        pings = Some(stream);
    }
    for (number, stream) in streams.iter().chain(&pings).enumerate() {
        let kind = if number < options.flows { "flow" } else { "pings" };
        println!("{kind} {number}: port {}", stream.local_addr()?.port());
    }
    let arrived: Vec<AtomicU64> = streams.iter().map(|_| AtomicU64::new(0)).collect();
    let run = Run::default();
    let (seconds, round_trips) = thread::scope(|scope| {
        for (stream, arrived) in streams.iter().zip(&arrived) {
            scope.spawn(|| run.note(send(stream, &run)));
            scope.spawn(|| listen(stream, arrived));
        }
        let pings = pings.as_ref().map(|stream| (stream, scope.spawn(|| ping(stream, &run))));
        let seconds = sample(&arrived, &run, options);
        run.over.store(true, Ordering::SeqCst);
        for stream in streams.iter().chain(pings.as_ref().map(|(stream, _)| *stream)) {
            // It fails if the connection is closed, which was recorded.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let round_trips = pings.map_or(Vec::new(), |(_, thread)| thread.join().unwrap_or_default());
        (seconds, round_trips)
    });
    report(&seconds, round_trips, run.lost.into_inner());
    Ok(())
}

fn send(mut stream: &TcpStream, run: &Run) -> std::io::Result<()> {
    let chunk = vec![b'w'; CHUNK_LEN];
    while !run.over.load(Ordering::SeqCst) {
        stream.write_all(&chunk)?;
    }
    Ok(())
}

/// Records the receiver's reports of a flow.
fn listen(mut stream: &TcpStream, arrived: &AtomicU64) {
    let mut total = [0; 8];
    while stream.read_exact(&mut total).is_ok() {
        arrived.store(u64::from_le_bytes(total), Ordering::SeqCst);
    }
}

/// Sends one message after another and returns their round-trip times.
fn ping(mut stream: &TcpStream, run: &Run) -> Vec<Duration> {
    let mut round_trips = Vec::new();
    let mut message = [b'w'; MESSAGE_LEN];
    let mut once = |message: &mut [u8]| -> std::io::Result<Duration> {
        let start = Instant::now();
        stream.write_all(message)?;
        stream.read_exact(message)?;
        Ok(start.elapsed())
    };
    loop {
        match once(&mut message) {
            Ok(took) if run.counting.load(Ordering::SeqCst) => round_trips.push(took),
            Ok(_) => {}
            Err(error) => {
                let closed = error.kind() == ErrorKind::UnexpectedEof;
                run.note(if closed { Ok(()) } else { Err(error) });
                return round_trips;
            }
        }
        thread::sleep(MESSAGE_GAP);
    }
}

/// The bytes of each flow that arrived in each measured second.
fn sample(arrived: &[AtomicU64], run: &Run, options: &Options) -> Vec<Vec<u64>> {
    let read = || arrived.iter().map(|total| total.load(Ordering::SeqCst)).collect::<Vec<u64>>();
    let start = Instant::now() + Duration::from_secs(options.warm);
    thread::sleep(start.saturating_duration_since(Instant::now()));
    run.counting.store(true, Ordering::SeqCst);
    println!("counting");
    let mut before = read();
    let mut seconds = Vec::new();
    for second in 1..=options.seconds {
        thread::sleep((start + Duration::from_secs(second as u64)).saturating_duration_since(Instant::now()));
        let now = read();
        seconds.push(now.iter().zip(&before).map(|(now, before)| now - before).collect());
        before = now;
    }
    println!("counted");
    seconds
}

fn report(seconds: &[Vec<u64>], mut round_trips: Vec<Duration>, lost: u32) {
    let flows = seconds.first().map_or(0, Vec::len);
    let totals: Vec<u64> = (0..flows).map(|flow| seconds.iter().map(|second| second[flow]).sum()).collect();
    for (number, second) in seconds.iter().enumerate() {
        println!("second {}: bytes {second:?}", number + 1);
    }
    println!("all: bytes {totals:?}");
    let nfm = seconds.iter().map(|second| spread(second)).sum::<f64>() / seconds.len() as f64;
    let rate = totals.iter().sum::<u64>() as f64 * 8e-6 / seconds.len() as f64;
    print!("jain={:.3} nfm={nfm:.2} mbps={rate:.1} lost={lost}", jain(&totals));
    round_trips.sort();
    let micros: Vec<f64> = round_trips.iter().map(|took| took.as_secs_f64() * 1e6).collect();
    match micros.get(micros.len() * 9 / 10) {
        Some(p90) => {
            let mean = micros.iter().sum::<f64>() / micros.len() as f64;
            println!(" round_trips={} mean_us={mean:.0} p90_us={p90:.0}", micros.len());
        }
        None => println!(" round_trips=0"),
    }
}

/// The fairness index of Jain, Chiu and Hawe (1984): 1 if all shares are equal, 1/n if one flow has everything.
fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 0.0 }
}

/// The difference between the largest and the smallest share, in mean shares: Titan's measure of unfairness.
fn spread(shares: &[u64]) -> f64 {
    let mean = shares.iter().sum::<u64>() as f64 / shares.len() as f64;
    let (least, most) = (shares.iter().min(), shares.iter().max());
    match (least, most) {
        (Some(least), Some(most)) if mean > 0.0 => (most - least) as f64 / mean,
        _ => 0.0,
    }
}
