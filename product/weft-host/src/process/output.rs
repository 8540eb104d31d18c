//! The destinations of a program's output.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most bytes kept of one captured stream. The rest is read, so that the program does not block, and discarded.
pub const CAPTURE_LIMIT: usize = 64 << 20;

/// The time that the end of a stream is awaited after its program has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The destination of an output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Discarded.
    #[default]
    Null,
    /// The same destination as this process's own.
    Inherit,
    /// Into memory, up to [`CAPTURE_LIMIT`].
    Capture,
    /// A pipe for the caller.
    Pipe,
    /// A file, which is created or overwritten.
    File(PathBuf),
}

impl Output {
    pub(super) fn stdio(&self) -> io::Result<Stdio> {
        Ok(match self {
            Output::Null => Stdio::null(),
            Output::Inherit => Stdio::inherit(),
            Output::Capture | Output::Pipe => Stdio::piped(),
            Output::File(path) => File::create(path)?.into(),
        })
    }

    pub(super) fn stream(&self, pipe: Option<OwnedFd>) -> io::Result<Stream> {
        Ok(match (self, pipe.map(File::from)) {
            (Output::Capture, Some(pipe)) => Stream::Captured(Capture::start(pipe)?),
            (Output::Pipe, Some(pipe)) => Stream::Pipe(Some(pipe)),
            _ => Stream::Elsewhere,
        })
    }
}

/// The captured output of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The bytes, at most [`CAPTURE_LIMIT`].
    pub bytes: Vec<u8>,
    /// The number of bytes discarded beyond the limit.
    pub forgotten: u64,
}

impl Captured {
    /// The bytes as text; invalid UTF-8 becomes the replacement character.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[derive(Debug)]
pub(super) enum Stream {
    Elsewhere,
    Pipe(Option<File>),
    Captured(Capture),
}

impl Stream {
    pub(super) fn take_pipe(&mut self) -> Option<File> {
        match self {
            Stream::Pipe(pipe) => pipe.take(),
            _ => None,
        }
    }

    /// The captured output. If the program has ended, first waits for the end of the stream.
    pub(super) fn captured(&mut self, ended: bool) -> Captured {
        match self {
            Stream::Captured(capture) => capture.so_far(ended),
            _ => Captured::default(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Capture {
    kept: Arc<Mutex<Captured>>,
    reader: Option<JoinHandle<()>>,
}

impl Capture {
    fn start(mut pipe: File) -> io::Result<Capture> {
        let kept = Arc::new(Mutex::new(Captured::default()));
        let shared = kept.clone();
        let reader = std::thread::Builder::new().name("weft-capture".into()).spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            loop {
                let read = match pipe.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(read) => read,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Err(_) => return,
                };
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let room = read.min(CAPTURE_LIMIT - kept.bytes.len());
                kept.bytes.extend_from_slice(&buffer[..room]);
                kept.forgotten += (read - room) as u64;
            }
        })?;
        Ok(Capture { kept, reader: Some(reader) })
    }

    fn so_far(&mut self, ended: bool) -> Captured {
        if ended && let Some(reader) = self.reader.take() {
            // The stream ends with the last writer of the pipe, which may be a child that outlives the program.
            let deadline = Instant::now() + LAST_WORDS;
            while !reader.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
