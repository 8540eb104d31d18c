//! The users of a host, by their names.

use std::collections::BTreeMap;
use weft_text::nearest;

/// The numbers of users by their names. The compiler asks no host, so its caller hands them over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Users(BTreeMap<String, u32>);

impl Users {
    /// The users of a text in the form of `/etc/passwd` (passwd(5)). Of two lines with one name, the first counts, as it does
    /// for the C library; lines of another form are left out.
    pub fn from_passwd(text: &str) -> Self {
        let mut users = BTreeMap::new();
        for line in text.lines() {
            let mut parts = line.split(':');
            let (name, number) = (parts.next(), parts.nth(1).and_then(|number| number.parse().ok()));
            if let Some((name, number)) = name.zip(number) {
                users.entry(name.to_owned()).or_insert(number);
            }
        }
        Self(users)
    }

    /// The number of the user `name`.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.0.get(name).copied()
    }

    /// The name that is closest to `name`, if one is close.
    pub(crate) fn similar(&self, name: &str) -> Option<&str> {
        nearest(name, self.0.keys().map(String::as_str), &[])
    }
}

#[cfg(test)]
mod tests {
    use super::Users;

    #[test]
    fn lines_of_another_form_are_left_out() {
        let users = Users::from_passwd(
            "root:x:0:0::/root:/bin/sh\n\nodd\nodd:x:y:1::/:\nann:x:1000:1000::/:\nann:x:7:7::/:\n",
        );
        assert_eq!(
            ["root", "ann", "odd", ""].map(|name| users.number(name)),
            [Some(0), Some(1000), None, None]
        );
        assert_eq!(users.similar("anne"), Some("ann"));
    }
}
