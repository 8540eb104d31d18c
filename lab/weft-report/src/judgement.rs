//! The judgement of a verdict or claim, and the exit code for several.

/// The judgement of a requirement or claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// The figures show that it is true.
    Holds,
    /// The figures show that it is false.
    Fails,
    /// This machine or run cannot show it. The reason completes the sentence "cannot be shown here, because".
    NotShown(String),
}

impl Judgement {
    /// [`Holds`](Self::Holds) or [`Fails`](Self::Fails).
    pub fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }

    /// The exit code of `--strict`: 1 if one fails, otherwise 3 if one cannot be shown, otherwise 0.
    pub fn strict_exit_code<'a>(all: impl IntoIterator<Item = &'a Self>) -> u8 {
        let code = |judgement: &Self| match judgement {
            Self::Holds => 0,
            Self::Fails => 1,
            Self::NotShown(_) => 3,
        };
        let codes: Vec<u8> = all.into_iter().map(code).collect();
        if codes.contains(&1) { 1 } else { codes.into_iter().max().unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::Judgement::{self, Fails, Holds, NotShown};

    #[test]
    fn a_failure_outweighs_what_cannot_be_shown() {
        let unseen = || NotShown("one core".to_owned());
        assert_eq!(Judgement::strict_exit_code(&[]), 0);
        assert_eq!(Judgement::strict_exit_code(&[Holds, Holds]), 0);
        assert_eq!(Judgement::strict_exit_code(&[Holds, unseen()]), 3);
        assert_eq!(Judgement::strict_exit_code(&[unseen(), Fails, Holds]), 1);
    }
}
