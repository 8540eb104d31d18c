//! A store that many workers fill, in memory: `fleet [WORKERS] [RESULTS] [KILLS] [TWINS]`, by default 1,000, 10,000,000 and 2,000, of
//! which one in 10 is only apparent. Prints one line of JSON.

mod model;

use model::{Fleet, Plan};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| words.get(at).map_or(Ok(default), |word| word.parse());
    let (workers, results, kills) = (number(0, 1_000)?, number(1, 10_000_000)?, number(2, 2_000)?);
    let plan = Plan { workers, results, kills, twins: number(3, 10)?, seed: 1 };
    let folder = std::env::temp_dir().join(format!("weft-fleet-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let counts = Fleet::new(plan, &folder).and_then(Fleet::run);
    std::fs::remove_dir_all(&folder)?;
    println!("{}", serde_json::to_string(&counts?.json())?);
    Ok(())
}
