//! Independent pieces of work, spread over threads.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Runs `jobs` independent jobs, numbered from 0, on at most `threads` threads; a thread takes the next job when it
/// has finished one. Returns the results in order of the numbers. Once `cancelled` returns true no further job
/// starts, and those not started give `None`. After each job `progress` gets, on the calling thread, the number of
/// jobs done.
///
/// # Panics
/// Panics if `run` does.
pub fn sweep<T: Send>(
    jobs: usize,
    threads: usize,
    cancelled: &(dyn Fn() -> bool + Sync),
    run: impl Fn(usize) -> T + Sync,
    mut progress: impl FnMut(usize),
) -> Vec<Option<T>> {
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<T>> = std::iter::repeat_with(|| None).take(jobs).collect();
    thread::scope(|scope| {
        let (done, finished) = mpsc::channel();
        let workers: Vec<_> = (0..threads.clamp(1, jobs.max(1)))
            .map(|_| {
                let (done, next, run) = (done.clone(), &next, &run);
                scope.spawn(move || {
                    while !cancelled() {
                        let job = next.fetch_add(1, Ordering::Relaxed);
                        if job >= jobs || done.send((job, run(job))).is_err() {
                            break;
                        }
                    }
                })
            })
            .collect();
        drop(done);
        for (count, (job, result)) in finished.iter().enumerate() {
            results[job] = Some(result);
            progress(count + 1);
        }
        for worker in workers {
            worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicBool;
    use std::sync::{Barrier, Mutex};

    #[test]
    fn results_come_in_order_whatever_the_threads() {
        for threads in [0, 1, 3, 64] {
            let mut told = Vec::new();
            let results = sweep(20, threads, &|| false, |job| job * job, |done| told.push(done));
            assert_eq!(results, (0..20).map(|job| Some(job * job)).collect::<Vec<_>>(), "{threads} threads");
            assert_eq!(told, (1..=20).collect::<Vec<_>>());
        }
        assert_eq!(sweep(0, 4, &|| false, |job| job, |_| ()), []);
    }

    #[test]
    fn threads_work_at_the_same_time() {
        // No thread passes the barrier alone.
        let (barrier, seen) = (Barrier::new(3), Mutex::new(BTreeSet::new()));
        let results = sweep(
            3,
            3,
            &|| false,
            |_| {
                barrier.wait();
                seen.lock().expect("no panic").insert(format!("{:?}", thread::current().id()));
            },
            |_| (),
        );
        assert_eq!((results.len(), seen.into_inner().expect("no panic").len()), (3, 3));
    }

    #[test]
    fn what_has_not_begun_when_cancelled_gives_none() {
        let stop = AtomicBool::new(false);
        let run = |job: usize| {
            stop.fetch_or(job == 4, Ordering::Relaxed);
            job
        };
        let results = sweep(10, 1, &|| stop.load(Ordering::Relaxed), run, |_| ());
        let expected: Vec<_> = (0..10).map(|job| (job <= 4).then_some(job)).collect();
        assert_eq!(results, expected);
    }

    #[test]
    #[should_panic(expected = "the third fails")]
    fn a_panic_is_passed_on() {
        sweep(5, 2, &|| false, |job| assert!(job != 2, "the third fails"), |_| ());
    }
}
