// Colours of policies and of arrivals: a text becomes pieces [start, end, class]. The words are the compiler's own.
const TESTS = new Set("any cgroup classid cookie dport dscp ecn from icmp icmpv6 mark pcp port process protocol sctp sport tcp to udp user vlan".split(" "));
const TYPES = new Set("count bytes time duration rate vtime weight signed".split(" "));
const PIECE = /#[^\n]*|"[^"\n]*"?|\d[\w.:%/]*|[A-Za-z_][\w.-]*|[{}=]/g;

function colourPolicy(text, words) {
  const plain = new Set([...words.reserved, ...words.contextual]);
  const inside = new Set([...words.algorithm, ...words.functions]);
  const names = new Set(words.names);
  const pieces = [];
  let depth = 0; // of braces within an algorithm
  let body = false;
  for (const found of text.matchAll(PIECE)) {
    const [word] = found;
    const start = found.index;
    const end = start + word.length;
    const begins = /^[ \t]*$/.test(text.slice(text.lastIndexOf("\n", start - 1) + 1, start));
    const defines = begins && /^[ \t]*=/.test(text.slice(end));
    if (!body && begins && words.kinds.includes(word)) body = true;
    else if (body && word === "{") depth += 1;
    else if (body && word === "}") { depth -= 1; body = depth > 0; }
    const of = kind(word, body, defines);
    if (of) pieces.push([start, end, of]);
  }
  return pieces;

  function kind(word, body, defines) {
    if (word[0] === "#") return "comment";
    if (word[0] === '"') return "text";
    if (/^\d/.test(word)) return "number";
    if (body && words.kinds.includes(word)) return "word";
    if (body && TYPES.has(word)) return "type";
    if (body && names.has(word)) return "value";
    if (body) return inside.has(word) ? "word" : null;
    if (defines) return "defined";
    if (TESTS.has(word)) return "test";
    return plain.has(word) ? "word" : null;
  }
}

function colourArrivals(text, words) {
  const pieces = [];
  for (const found of text.matchAll(PIECE)) {
    const [word] = found;
    const start = found.index;
    const line = text.slice(text.lastIndexOf("\n", start - 1) + 1, start);
    let of = null;
    if (word[0] === "#") of = "comment";
    else if (word[0] === '"') of = "text";
    else if (/^[ \t]*$/.test(line)) of = words.lines.includes(word) ? "word" : null;
    else if (/^[ \t]*packet[ \t]+$/.test(line)) of = "defined";
    else if (/^\d/.test(word)) of = "number";
    else if (words.facts.includes(word)) of = "test";
    if (of) pieces.push([start, start + word.length, of]);
  }
  return pieces;
}
