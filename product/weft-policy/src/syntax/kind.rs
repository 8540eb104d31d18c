//! The kinds of tokens and nodes of the syntax tree.

/// Declares the kinds and the list of them; rowan's numbers are their places in it.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)*) => {
        /// A kind of token or node.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        pub enum SyntaxKind {
            $($(#[$doc])* $kind,)*
        }

        /// All kinds, indexed by their numbers.
        const KINDS: &[SyntaxKind] = &[$(SyntaxKind::$kind),*];
    };
}

kinds! {
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
    /// An operator of an algorithm, such as `+` or `<=`.
    Operator,
    /// `;`, which may separate the statements of an algorithm.
    Semicolon,
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
    /// `WORD { ... }`, where the word is that of a discipline.
    DisciplineExpr,
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
    /// `NAME { a: ARGUMENTS, ... }` or `NAME ARGUMENTS of x`: an algorithm at a node or a leaf.
    AlgorithmExpr,
    /// `tenant "FILE" of condition { quotas }`
    TenantExpr,
    /// A quota of a tenant, such as `classes 64`, or `trust`.
    QuotaItem,
    /// `steer GOAL + GOAL`
    SteerItem,
    /// A goal of steering, such as `0.5 * locality`.
    GoalPart,
    /// A class or a processor with its queues.
    QueueItem,
    /// The arguments of an algorithm: `2ms`, or `min 4gbps max 10gbps`.
    Arguments,
    /// `algorithm NAME(...) { ... }`, `shaper ...` or `dropper ...`
    AlgorithmItem,
    /// The parameters of an algorithm.
    ParameterList,
    /// A parameter with its type and its default.
    Parameter,
    /// A type, such as `signed bytes`.
    TypeName,
    /// `node ...` or `child ...`: the state of an algorithm.
    StatePart,
    /// Fields of one type in a state, with their initial value.
    Field,
    /// `active { ... }` and the like.
    EventPart,
    /// `rank = ...`, with `from` and `until`.
    RankPart,
    /// `from T`
    FromClause,
    /// `until T then R`
    UntilClause,
    /// `follows head`
    FollowsPart,
    /// Statements in braces.
    Block,
    /// `let NAME = ...`
    LetStatement,
    /// `NAME = ...`, `NAME += ...`
    AssignStatement,
    /// `if ... { ... } else { ... }`
    IfStatement,
    /// `rerank`, `drop` or `mark`
    ActionStatement,
    /// Two operands and the operator between them.
    BinaryExpr,
    /// `not` and an operand.
    NotExpr,
    /// `min(a, b)` and the like.
    CallExpr,
    /// `lowest FIELD`
    LowestExpr,
    /// An operand in parentheses.
    ParenExpr,
    /// A name in an expression, such as `head.len`.
    PathExpr,
    /// A number in an expression, such as `5ms`.
    LiteralExpr,
    /// Tokens that fit nowhere.
    Error,
}

impl SyntaxKind {
    /// Whether the parser skips tokens of this kind.
    pub const fn is_trivia(self) -> bool {
        matches!(self, Self::Whitespace | Self::Comment)
    }
}

/// The policy language as a type, which rowan requires.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PolicyLanguage {}

impl rowan::Language for PolicyLanguage {
    type Kind = SyntaxKind;

    fn kind_from_raw(raw: rowan::SyntaxKind) -> SyntaxKind {
        KINDS.get(usize::from(raw.0)).copied().unwrap_or(SyntaxKind::Error)
    }

    fn kind_to_raw(kind: SyntaxKind) -> rowan::SyntaxKind {
        rowan::SyntaxKind(kind as u16)
    }
}

/// A node of the syntax tree. The tree is lossless: its text is the policy's text, byte by byte.
pub type SyntaxNode = rowan::SyntaxNode<PolicyLanguage>;
/// A token of the syntax tree.
pub type SyntaxToken = rowan::SyntaxToken<PolicyLanguage>;
