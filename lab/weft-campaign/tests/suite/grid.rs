//! Grids: their errors, and their runs beside those of slow and obvious loops.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use weft_campaign::fuzz_grid;
use weft_campaign::grid::{self, Grid, Shard};
use weft_units::testing::FuzzRun;

/// Axes that advance together: by axis, its values.
type Together = Vec<Vec<i64>>;

/// A comparison: an axis, how, and an axis or a number.
#[derive(Clone, Debug)]
struct Compared {
    left: usize,
    how: usize,
    right: Result<usize, i64>,
}

const HOW: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];

#[derive(Clone, Debug)]
struct Model {
    dimensions: Vec<Together>,
    conditions: Vec<Compared>,
    seeds: Vec<u64>,
}

fn model() -> impl Strategy<Value = Model> {
    let values = prop::collection::btree_set(-5_i64..10, 1..4);
    let together = (values, 1_usize..3).prop_map(|(values, axes)| -> Together {
        let values: Vec<i64> = values.into_iter().collect();
        // Another order in each, so that a mistake in zipping shows.
        (0..axes).map(|axis| values.iter().map(|v| if axis == 0 { *v } else { 3 - *v }).collect()).collect()
    });
    let compared =
        (0_usize..4, 0_usize..6, prop_oneof![(0_usize..4).prop_map(Ok), (-5_i64..10).prop_map(Err)]);
    let compared = compared.prop_map(|(left, how, right)| Compared { left, how, right });
    let seeds = prop::collection::btree_set(0_u64..100, 1..4);
    (prop::collection::vec(together, 0..4), prop::collection::vec(compared, 0..3), seeds).prop_map(
        |(dimensions, conditions, seeds)| Model {
            dimensions,
            conditions,
            seeds: seeds.into_iter().collect(),
        },
    )
}

impl Model {
    fn axes(&self) -> usize {
        self.dimensions.iter().map(Vec::len).sum()
    }

    /// The conditions whose axes exist.
    fn conditions(&self) -> Vec<&Compared> {
        let exists = |axis: &usize| *axis < self.axes();
        self.conditions.iter().filter(|c| exists(&c.left) && c.right.as_ref().map_or(true, exists)).collect()
    }

    fn text(&self) -> String {
        let conditions = self.conditions().into_iter().map(|c| {
            let right = c.right.map_or_else(|number| number.to_string(), |axis| format!("a{axis}"));
            format!("\"a{} {} {right}\"", c.left, HOW[c.how])
        });
        let conditions = conditions.collect::<Vec<_>>().join(", ");
        let mut text = format!("scenario = \"s.toml\"\nseeds = {:?}\nwhere = [{conditions}]\n", self.seeds);
        let mut axis = 0;
        for (zip, together) in self.dimensions.iter().enumerate() {
            for values in together {
                let _ =
                    write!(text, "[[axes]]\nkey = \"key.{axis}\"\nname = \"a{axis}\"\nvalues = {values:?}\n");
                if together.len() > 1 {
                    let _ = writeln!(text, "zip = \"z{zip}\"");
                }
                axis += 1;
            }
        }
        text
    }

    /// All runs by nested loops.
    fn runs(&self) -> Vec<(Vec<i64>, u64)> {
        let mut rows: Vec<Vec<i64>> = vec![Vec::new()];
        for together in &self.dimensions {
            let mut longer = Vec::new();
            for row in &rows {
                for at in 0..together[0].len() {
                    let mut row = row.clone();
                    row.extend(together.iter().map(|values| values[at]));
                    longer.push(row);
                }
            }
            rows = longer;
        }
        let conditions = self.conditions();
        let holds = |row: &Vec<i64>| {
            conditions.iter().all(|c| {
                let (left, right) = (row[c.left], c.right.map_or_else(|number| number, |axis| row[axis]));
                [left == right, left != right, left < right, left <= right, left > right, left >= right]
                    [c.how]
            })
        };
        let kept = rows.into_iter().filter(holds);
        kept.flat_map(|row| self.seeds.iter().map(move |seed| (row.clone(), *seed))).collect()
    }
}

fn runs(grid: &Grid, shard: Shard) -> Vec<(Vec<i64>, u64)> {
    let row = |run: &grid::GridRun| -> Vec<i64> {
        grid.parameters(&run.combination).map(|(_, value)| value.as_integer().expect("a number")).collect()
    };
    grid.runs(shard).map(|run| (row(&run), run.seed)).collect()
}

proptest! {
    #![proptest_config(Config { cases: 512, rng_seed: RngSeed::Fixed(19), ..Config::default() })]

    #[test]
    fn runs_are_those_of_nested_loops(model in model(), of in 1_u64..5) {
        let text = model.text();
        let grid = grid::read(&text, "g.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        let expected = model.runs();
        prop_assert_eq!(runs(&grid, Shard::ALL), expected.clone(), "{}", text);
        prop_assert_eq!(grid.count(), expected.len() as u64);
        let mut parts = 0;
        for index in 1..=of {
            let shard = Shard::new(index, of).expect("a shard");
            let part: Vec<_> = expected.iter().skip(index as usize - 1).step_by(of as usize).cloned().collect();
            prop_assert_eq!(shard.runs(expected.len() as u64), part.len() as u64);
            prop_assert_eq!(runs(&grid, shard), part);
            parts += shard.runs(expected.len() as u64);
        }
        prop_assert_eq!(parts, expected.len() as u64);
    }
}

/// The values of the only axis, which is given as a range.
fn range(range: &str) -> Result<String, String> {
    let text = format!("scenario = \"s.toml\"\n[[axes]]\nkey = \"k\"\nrange = {{ {range} }}\n");
    let grid = grid::read(&text, "g.toml").map_err(|error| error.to_string())?;
    Ok(grid.axes()[0].values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
}

#[test]
fn ranges_are_by_step_or_count_even_or_by_factors() {
    for (given, values) in [
        ("from = 1, to = 10, step = 3", "1 4 7 10"),
        ("from = 1, to = 9, step = 3", "1 4 7"),
        ("from = 1, to = 64, count = 7, scale = 'log'", "1 2 4 8 16 32 64"),
        ("from = 1, to = 100, step = 3, scale = 'log'", "1 3 9 27 81"),
        ("from = 0.0, to = 1.0, count = 4", "0.0 0.333333 0.666667 1.0"),
        ("from = 0, to = 0.3, step = 0.1", "0.0 0.1 0.2 0.3"),
        (
            "from = '1gbps', to = '2gbps', count = 5",
            "\"1gbps\" \"1.25gbps\" \"1.5gbps\" \"1.75gbps\" \"2gbps\"",
        ),
        ("from = '1us', to = '100us', count = 3, scale = 'log'", "\"1us\" \"10us\" \"100us\""),
        ("from = '1000B', to = '2000B', count = 4", "\"1000B\" \"1333B\" \"1667B\" \"2000B\""),
        ("from = '1ms', to = '2ms', step = '0.5ms'", "\"1ms\" \"1.5ms\" \"2ms\""),
        ("from = 5, to = 5, count = 1", "5"),
    ] {
        assert_eq!(range(given).as_deref(), Ok(values), "{given}");
    }
    for (given, said) in [
        ("from = 5, to = 1, step = 1", "ends before it begins"),
        ("from = 0, to = 8, count = 3, scale = 'log'", "begins above zero"),
        ("from = 1, to = 8, count = 3, step = 2", "either a `step` or a `count`"),
        ("from = 1, to = 8", "either a `step` or a `count`"),
        ("from = 1, to = 8, step = 0", "the step does not fit"),
        ("from = 1, to = 8, step = 0.5", "the step does not fit"),
        ("from = '1us', to = '8us', step = '1ms'", "the step does not fit"),
        ("from = '1us', to = '8ms', count = 3", "different units"),
        ("from = 1, to = 3, count = 9", "there twice"),
        ("from = 0.0, to = 1.0, step = 1e-9", "more than 1000000 values"),
        ("from = 1, to = 2, count = 2, scale = 'cubic'", "no scale"),
        ("from = true, to = 2, count = 2", "not a number"),
        ("from = 1, count = 2", "lacks `to`"),
    ] {
        let error = range(given).expect_err(given);
        assert!(
            error.contains(said) && error.starts_with("g.toml:") && error.contains("hint"),
            "{given}: {error}"
        );
    }
}

#[test]
fn wrong_grids_are_named_with_place_and_hint() {
    for (text, place, said) in [
        ("seeds = 3\n", "1:1", "lacks `scenario`"),
        ("scenario = \"s\"\nsedes = 3\n", "2:1", "unknown key `sedes`"),
        ("scenario = \"s\"\nseeds = 0\n", "2:9", "`seeds`"),
        ("scenario = \"s\"\nseeds = [1, 1]\n", "2:13", "twice"),
        ("scenario = \"s\"\n[[axes]]\nkey = \"k\"\n", "3:7", "no values"),
        ("scenario = \"s\"\n[[axes]]\nkey = \"k\"\nvalues = [1, 1]\n", "3:7", "twice"),
        ("scenario = \"s\"\n[[axes]]\nkey = \"seed\"\nvalues = [1]\n", "3:7", "no parameter"),
        (
            "scenario = \"s\"\nwhere = \"k > 1 and j < 2\"\n[[axes]]\nkey = \"k\"\nvalues = [1]\n",
            "2:20",
            "no axis `j`",
        ),
        ("scenario = \"s\"\nwhere = \"k > 'a'\"\n[[axes]]\nkey = \"k\"\nvalues = [1]\n", "2:10", "compared"),
        (
            "scenario = \"s\"\n[[axes]]\nkey = \"k\"\nzip = \"z\"\nvalues = [1]\n[[axes]]\nkey = \"j\"\nzip = \"z\"\nvalues = [1, 2]\n",
            "7:7",
            "as many values",
        ),
        (
            "scenario = \"s\"\n[[axes]]\nkey = \"k\"\nvalues = [1]\n[[axes]]\nkey = \"k\"\nvalues = [2]\n",
            "6:7",
            "second axis",
        ),
        ("scenario = \"s\"\n[[axes]]\nkey = \"k\"\nname = \"or\"\nvalues = [1]\n", "4:8", "no name"),
        ("scenario = \n", "1:12", "not TOML"),
    ] {
        let error = grid::read(text, "g.toml").expect_err(text).to_string();
        assert!(error.starts_with(&format!("g.toml:{place}: ")) && error.contains(said), "{text}{error}");
        assert_eq!(error.lines().count(), 2, "{error}");
    }
}

#[test]
fn ten_million_runs_are_counted_and_none_is_kept() {
    let axis = |key: &str, count: u32| {
        format!("[[axes]]\nkey = \"{key}\"\nrange = {{ from = 1, to = {count}, step = 1 }}\n")
    };
    let text = format!("scenario = \"s\"\nseeds = 100\n{}{}", axis("a", 100), axis("b", 1000));
    let grid = grid::read(&text, "g.toml").expect("a grid");
    assert_eq!(grid.count(), 10_000_000);
    let last = grid.runs(Shard::new(10_000_000, 10_000_000).expect("a shard")).last().expect("a run");
    assert_eq!((last.seed, last.combination.values), (100, vec![99, 999]));
    let none = Shard::new(u64::MAX, u64::MAX).expect("a shard");
    assert_eq!((none.runs(10_000_000), none.runs(u64::MAX), grid.runs(none).count()), (0, 1, 0));
    let many = format!("{text}{}{}", axis("c", 100_000), axis("d", 100_000));
    assert!(grid::read(&many, "g.toml").expect_err("too many").what.contains("more than"));
}

/// Fragments of grid files.
const PIECES: &[&str] = &[
    "[[axes]]\n",
    "scenario = \"s.toml\"\n",
    "seeds = 3\n",
    "where = \"a >= b\"\n",
    "key = \"a\"\n",
    "values = [1, 2]\n",
    "range = { from = 1, to = 8, count = 4, scale = \"log\" }\n",
    "zip = \"z\"\n",
    "name = \"n\"\n",
    " and ",
    " or ",
    "not ",
    "(",
    ")",
    "==",
    "<",
    "'",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\n",
    ".",
    "-",
    "1e400",
    "nan",
    "0x",
    "true",
    "18446744073709551616",
    "10gbps",
    "ä",
    "\u{202e}",
    "\u{0}",
    "\r\n",
    "\\u0000",
    "1979-05-27",
];

#[test]
fn no_grid_makes_the_reader_panic() {
    let whole = "scenario = \"s.toml\"\nseeds = { first = 5, count = 2 }\nwhere = [\"n >= b and not (n == 4 or b < 2)\"]\n\
                 [[axes]]\nkey = \"a\"\nname = \"n\"\nvalues = [1, 2, 4]\nzip = \"z\"\n[[axes]]\nkey = \"b\"\nzip = \"z\"\n\
                 range = { from = 1, to = 3, step = 1 }\n[[axes]]\nkey = \"rate\"\nrange = { from = \"1gbps\", to = \"2gbps\", count = 2 }\n";
    assert!(grid::read(whole, "g.toml").is_ok());
    let mut run = FuzzRun::from_environment(4000);
    // A linear congruential generator (Knuth, MMIX): the same on every machine.
    let mut state = run.seed;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % n.max(1)
    };
    let mut kept: BTreeMap<bool, u32> = BTreeMap::new();
    while run.next_round() {
        let mut data = whole.as_bytes().to_vec();
        for _ in 0..below(4) {
            let at = below(data.len() + 1);
            match below(3) {
                0 => drop(data.splice(at..at, PIECES[below(PIECES.len())].bytes())),
                1 => drop(data.drain(at..(at + below(8)).min(data.len()))),
                _ => {
                    if let Some(byte) = data.get_mut(at) {
                        *byte = below(256) as u8;
                    }
                }
            }
        }
        let caught = std::panic::catch_unwind(|| fuzz_grid(&data));
        assert!(caught.is_ok(), "seed {}: {}", run.seed, String::from_utf8_lossy(&data));
        *kept.entry(grid::read(&String::from_utf8_lossy(&data), "g").is_ok()).or_default() += 1;
    }
    assert!(kept.len() == 2, "some stay grids, most do not: {kept:?}");
    for text in ["[".repeat(100_000), "a.".repeat(50_000), "a=".to_owned() + &"{a=".repeat(100_000)] {
        fuzz_grid(text.as_bytes());
    }
}
