//! The arithmetic at its edges, against definitions in unlimited precision.

use proptest::prelude::*;
use weft_rank::{Binary, Inputs, Operation, Part, ProgramBuilder, Scale, Slot, arithmetic};
use weft_units::BitsPerSec;

/// Numbers at the edges of both readings, and any number.
fn number() -> impl Strategy<Value = u64> {
    let edges =
        [0, 1, 2, 3, 255, 256, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 63) + 1];
    let edges: Vec<u64> = edges.into_iter().chain([u64::MAX - 1, u64::MAX]).collect();
    prop_oneof![
        proptest::sample::select(edges),
        any::<u64>(),
        0..10_000_u64,
        (0..64_u32).prop_map(|bits| 1 << bits)
    ]
}

/// The result of an operator, by a program.
fn run(operator: Binary, left: u64, right: u64) -> u64 {
    let mut b = ProgramBuilder::new(Part::Sent);
    let (left, right) = (b.constant(left), b.constant(right));
    let result = b.push(Operation::Binary { operator, left, right });
    b.store(Slot::Node(0), result);
    let mut node = [0];
    b.build().expect("a program").run(&Inputs::default(), &[], &mut node, &mut []);
    node[0]
}

/// The same result in 128 bits, limited at the end.
fn defined(operator: Binary, left: u64, right: u64) -> u64 {
    let (a, b) = (i128::from(left), i128::from(right));
    let (x, y) = (i128::from(left as i64), i128::from(right as i64));
    let unsigned = |value: i128| value.clamp(0, i128::from(u64::MAX)) as u64;
    let signed = |value: i128| value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64 as u64;
    match operator {
        Binary::Add => unsigned(a + b),
        Binary::Sub => unsigned(a - b),
        Binary::Mul => (u128::from(left) * u128::from(right)).min(u128::from(u64::MAX)) as u64,
        Binary::Div => {
            if b == 0 {
                0
            } else {
                unsigned(a / b)
            }
        }
        Binary::Rem => {
            if b == 0 {
                left
            } else {
                unsigned(a % b)
            }
        }
        Binary::AddSigned => signed(x + y),
        Binary::SubSigned => signed(x - y),
        Binary::MulSigned => signed(x * y),
        Binary::DivSigned => {
            if y == 0 {
                0
            } else {
                signed(x.div_euclid(y) - i128::from(y < 0 && x.rem_euclid(y) != 0))
            }
        }
        Binary::Min => unsigned(a.min(b)),
        Binary::Max => unsigned(a.max(b)),
        Binary::Eq => u64::from(a == b),
        Binary::Ne => u64::from(a != b),
        Binary::Lt => u64::from(a < b),
        Binary::Le => u64::from(a <= b),
        Binary::LtSigned => u64::from(x < y),
        Binary::LeSigned => u64::from(x <= y),
        Binary::And => u64::from(a != 0 && b != 0),
        Binary::Or => u64::from(a != 0 || b != 0),
        Binary::OverSqrt => arithmetic::over_sqrt(left, right),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn operators_are_their_definitions(left in number(), right in number()) {
        for operator in Binary::ALL {
            prop_assert_eq!(run(operator, left, right), defined(operator, left, right), "{:?}", operator);
        }
    }

    /// Quotient and remainder rebuild the dividend, whatever the divisor is.
    #[test]
    fn quotient_and_remainder_belong_together(left in number(), right in number()) {
        let rebuilt = u128::from(run(Binary::Div, left, right)) * u128::from(right)
            + u128::from(run(Binary::Rem, left, right));
        prop_assert_eq!(rebuilt, u128::from(left));
    }

    /// A product less than 2^96 plus a carry, split at the shift.
    #[test]
    fn a_scale_splits_a_product(value in number(), word in number(), carry in number()) {
        let scale = Scale::from_word(word);
        let product = u128::from(value) * u128::from(word >> 32) + u128::from(carry);
        let whole = product >> (word & 63);
        prop_assert_eq!(u128::from(scale.whole(value, carry)), whole.min(u128::from(u64::MAX)));
        prop_assert_eq!(u128::from(scale.rest(value, carry)), product & ((1 << (word & 63)) - 1));
    }

    #[test]
    fn a_time_is_never_below_the_exact_one_and_closer_than_2_to_the_minus_31(
        rate in 2..=u64::MAX, bytes in 0..1_u64 << 40,
    ) {
        let scale = Scale::time_per_byte(BitsPerSec(rate));
        let found = u128::from(scale.whole(bytes, 0));
        let exact = u128::from(bytes) * 8_000_000_000 / u128::from(rate);
        prop_assume!(exact < u128::from(u64::MAX) / 2);
        prop_assert!(found >= exact && found <= exact + 1 + (exact >> 31), "{} instead of {}", found, exact);
    }

    /// `r = interval / sqrt(count)` within 2^-26 up to a count of 255, within 1/64 above, and never above the interval.
    #[test]
    fn over_sqrt_is_close_to_the_root(interval in 0..1_u64 << 40, count in number()) {
        let found = arithmetic::over_sqrt(interval, count) as f64;
        let exact = interval as f64 / (count.max(1) as f64).sqrt();
        let error = if count < 256 { 2_f64.powi(-26) } else { 1.0 / 64.0 };
        prop_assert!((found - exact).abs() <= 1.0 + exact * error, "{} instead of {}", found, exact);
        prop_assert!(found <= interval as f64);
    }
}

/// More is never less: a larger count gives no larger span.
#[test]
fn over_sqrt_falls() {
    let spans: Vec<u64> = (0..100_000).map(|count| arithmetic::over_sqrt(100_000_000, count)).collect();
    assert!(spans.windows(2).all(|pair| pair[1] <= pair[0]));
}
