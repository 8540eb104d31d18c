//! The kinds of tokens and nodes of the syntax tree.

/// A kind of token or node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum SyntaxKind {
    /// Spaces, tabs and line ends.
    Whitespace,
    /// From `#` to the end of the line.
    Comment,
    /// A name, a keyword, a number with or without a unit, an address: letters, digits, `.`, `-` and `_`.
    Word,
    /// A text in double quotes on one line.
    Text,
    /// `=`
    Equals,
    /// `{`
    OpenBrace,
    /// `}`
    CloseBrace,
    /// `(`
    OpenParen,
    /// `)`
    CloseParen,
    /// `,`
    Comma,
    /// `::`, which only IPv6 addresses have.
    DoubleColon,
    /// `:`
    Colon,
    /// `/`
    Slash,
    /// Any other character.
    Unknown,

    /// The whole file.
    File,
    /// `link RATE`
    LinkItem,
    /// `bound N packets [of CLASS]`
    BoundItem,
    /// `latency TIME of CLASS`
    LatencyItem,
    /// `class NAME = condition`
    ClassItem,
    /// `NAME = expression`
    NodeItem,
    /// A defined name.
    Name,
    /// A use of a name.
    NameRef,
    /// A number, rate, size, prefix, port range or mark, as written.
    Value,
    /// Conditions joined by `or`.
    OrCondition,
    /// Conditions joined by `and`.
    AndCondition,
    /// `not` and a condition.
    NotCondition,
    /// A condition in parentheses.
    ParenCondition,
    /// A single test, such as `dport 80..443`.
    Test,
    /// `priority { ... }`
    PriorityExpr,
    /// `wfq { ... }`
    WfqExpr,
    /// `fifo { ... }`
    FifoExpr,
    /// `fair of x`
    FairExpr,
    /// `limit ... of x`
    LimitExpr,
    /// A child of an inner node, with its weight.
    ChildItem,
    /// A destination of `limit by destination`, with its rate and burst.
    DestinationItem,
    /// A port of `limit by port`, with its rate and burst.
    PortItem,
    /// `burst SIZE`
    Burst,
    /// Tokens that fit nowhere.
    Error,
}

/// The last kind. Kinds are dense from 0.
const LAST: SyntaxKind = SyntaxKind::Error;

impl SyntaxKind {
    /// Whether the parser skips tokens of this kind.
    pub const fn is_trivia(self) -> bool {
        matches!(self, Self::Whitespace | Self::Comment)
    }
}

/// The policy language as a type, which rowan requires.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PolicyLanguage {}

/// All kinds, indexed by their numbers.
const KINDS: &[SyntaxKind] = {
    use SyntaxKind::*;
    &[
        Whitespace,
        Comment,
        Word,
        Text,
        Equals,
        OpenBrace,
        CloseBrace,
        OpenParen,
        CloseParen,
        Comma,
        DoubleColon,
        Colon,
        Slash,
        Unknown,
        File,
        LinkItem,
        BoundItem,
        LatencyItem,
        ClassItem,
        NodeItem,
        Name,
        NameRef,
        Value,
        OrCondition,
        AndCondition,
        NotCondition,
        ParenCondition,
        Test,
        PriorityExpr,
        WfqExpr,
        FifoExpr,
        FairExpr,
        LimitExpr,
        ChildItem,
        DestinationItem,
        PortItem,
        Burst,
        Error,
    ]
};

const _: () = {
    assert!(KINDS.len() == LAST as usize + 1, "every kind is listed");
    let mut at = 0;
    while at < KINDS.len() {
        assert!(KINDS[at] as usize == at, "kinds are listed in their order");
        at += 1;
    }
};

impl rowan::Language for PolicyLanguage {
    type Kind = SyntaxKind;

    fn kind_from_raw(raw: rowan::SyntaxKind) -> SyntaxKind {
        KINDS.get(usize::from(raw.0)).copied().unwrap_or(LAST)
    }

    fn kind_to_raw(kind: SyntaxKind) -> rowan::SyntaxKind {
        rowan::SyntaxKind(kind as u16)
    }
}

/// A node of the syntax tree. The tree is lossless: its text is the policy's text, byte by byte.
pub type SyntaxNode = rowan::SyntaxNode<PolicyLanguage>;
/// A token of the syntax tree.
pub type SyntaxToken = rowan::SyntaxToken<PolicyLanguage>;
