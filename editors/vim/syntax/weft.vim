" Policies of weftline. A test compares these words with the compiler's.
if exists('b:current_syntax')
  finish
endif

syntax case match
syntax iskeyword @,48-57,_,.,-

syntax keyword weftItem auto bound class classes cost flow flows cgroups ports rows masks entries latency limits link nodes packets queue queues steer tenant trust
syntax keyword weftGoal balance expression isolate locality on rate static weight
syntax keyword weftNode burst by destination fair fifo limit of priority wfq
syntax keyword weftTest any cgroup classid cookie dport dscp ecn from icmp icmpv6 mark pcp port process protocol sctp sport tcp to udp user vlan
syntax keyword weftOperator and not or

syntax match weftNumber /\<\d[0-9A-Za-z.:%]*\%(\/[0-9A-Fa-fx.]\+\)\?/
syntax match weftDefined /^\s*\zs\h[A-Za-z0-9_.-]*\ze\s*=/
syntax match weftComment /#.*$/ contains=@Spell
syntax region weftText start=/"/ end=/"/ oneline

" Algorithms: their words mean something in their bodies only.
syntax match weftAlgorithm /^\s*\%(algorithm\|shaper\|dropper\)\s\+\h[A-Za-z0-9_.-]*/ contains=weftKind nextgroup=weftParameters,weftBody skipwhite
syntax keyword weftKind contained algorithm shaper dropper
syntax region weftParameters contained start=/(/ end=/)/ contains=weftType,weftNumber,weftComment nextgroup=weftBody skipwhite
syntax region weftBody contained start=/{/ end=/}/ contains=weftBody,weftPart,weftStatement,weftType,weftFunction,weftValue,weftNumber,weftComment
syntax keyword weftPart contained active arrives begin child fetched follows from idle node rank sent
syntax keyword weftStatement contained after and drop else forget head if let lowest mark not or rerank then until
syntax keyword weftType contained count bytes time duration rate vtime weight signed
syntax keyword weftFunction contained min max over_sqrt
syntax keyword weftValue contained now bytes more rank rank.1 rank.2 weights queued.bytes queued.packets mtu most never unlimited head.len head.arrived head.deadline head.slack head.left head.late head.prio head.txtime head.pace p.len p.arrived p.deadline p.slack p.left p.late p.prio p.txtime p.pace

highlight default link weftItem Keyword
highlight default link weftGoal Statement
highlight default link weftNode Statement
highlight default link weftTest Function
highlight default link weftOperator Operator
highlight default link weftNumber Number
highlight default link weftDefined Identifier
highlight default link weftText String
highlight default link weftComment Comment
highlight default link weftAlgorithm Identifier
highlight default link weftKind Keyword
highlight default link weftPart Label
highlight default link weftStatement Statement
highlight default link weftType Type
highlight default link weftFunction Function
highlight default link weftValue Constant

let b:current_syntax = 'weft'
