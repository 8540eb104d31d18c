//! Versions of the CNI specification.

use crate::error::{CniError, ErrorCode};
use weft_text::quoted;

/// A version that the plugin supports. Later versions are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[allow(non_camel_case_types, reason = "the dots of a version")]
pub enum Version {
    /// 0.3.1
    V0_3_1,
    /// 0.4.0: adds CHECK.
    V0_4_0,
    /// 1.0.0: removes the IP version from results.
    V1_0_0,
    /// 1.1.0: adds STATUS and GC.
    #[default]
    V1_1_0,
}

impl Version {
    /// All supported versions, the oldest first.
    pub const ALL: [Self; 4] = [Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];

    /// The version as configurations write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// The version with this text.
    ///
    /// # Errors
    /// When it is not supported.
    pub fn read(text: &str) -> Result<Self, CniError> {
        Self::ALL.into_iter().find(|version| version.text() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::text).join(", ");
            CniError::new(
                ErrorCode::IncompatibleVersion,
                format!("cniVersion {} is not supported", quoted(text)),
            )
            .details(format!("supported: {known}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_return_from_their_text() {
        for version in Version::ALL {
            assert_eq!(Version::read(version.text()), Ok(version));
        }
        for text in ["", "1.1", "1.2.0", "0.2.0", "01.1.0"] {
            assert_eq!(Version::read(text).expect_err("refused").code, 1, "{text}");
        }
    }
}
