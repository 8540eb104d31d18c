// Changes of the arrivals' text by the timeline: the packet of number n is the n-th line that begins with `packet`, up to the next test.

function packetLines(text) {
  const lines = text.split("\n");
  const found = [];
  let tests = 0;
  lines.forEach((line, at) => {
    if (/^\s*test\b/.test(line) && (found.length || ++tests > 1)) tests = 2;
    if (tests < 2 && /^\s*packet\b/.test(line)) found.push(at);
  });
  return { lines, found };
}

// A time as the language writes it, without loss.
function writeTime(ns) {
  for (const [unit, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) if (ns >= unit && (ns * 1000 / unit) % 1 === 0) return `${ns / unit}${name}`;
  return `${ns}ns`;
}

function withTime(text, number, ns) {
  const { lines, found } = packetLines(text);
  const [, body, comment] = /^([^#]*?)(\s*#.*)?$/.exec(lines[found[number]]);
  const at = ns > 0 ? ` at ${writeTime(ns)}` : "";
  const has = /\s+at\s+[^\s,]+/;
  lines[found[number]] = (has.test(body) ? body.replace(has, at) : body.trimEnd() + at) + (comment ?? "");
  return lines.join("\n");
}

// Takes the packet out, also of the lines of what is expected.
function without(text, number, name) {
  const { lines, found } = packetLines(text);
  const quoted = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const mention = new RegExp(`(^|[\\s,])${quoted}(\\s+at\\s+[^\\s,#]+)?(?=[\\s,]|$)`, "g");
  const kept = lines.map((line) => (/^\s*(expect|drops)\b/.test(line) ? line.replace(mention, "").replace(/^(\s*(expect|drops))\s*$/, "") : line));
  kept.splice(found[number], 1);
  return kept.join("\n");
}

// A packet more, like the last one of its row, under the next free name.
function withPacket(text, like, names, ns) {
  const { lines, found } = packetLines(text);
  const [, stem, digits] = /^(.*?)(\d*)$/.exec(like.name);
  let number = Number(digits || 1);
  let name;
  do name = `${stem}${++number}`; while (names.has(name));
  const flow = like.flow ? ` flow ${like.flow}` : "";
  const at = ns > 0 ? ` at ${writeTime(ns)}` : "";
  lines.splice((found.at(-1) ?? lines.length - 1) + 1, 0, `packet ${name} ${like.bytes} class ${like.class}${flow}${at}`);
  return { text: lines.join("\n"), name };
}

// The order and the drops of a run in place of those that the text states.
function withExpected(text, run) {
  const kept = text.split("\n").filter((line) => !/^\s*(expect|drops)\b/.test(line));
  while (kept.length && kept.at(-1).trim() === "") kept.pop();
  const name = (number) => run.packets[number].name;
  if (run.turns.length) kept.push(`expect ${run.turns.map((turn) => name(turn.packet)).join(" ")}`);
  const lost = run.packets.filter((packet) => packet.fate !== "sent").map((packet) => packet.name);
  if (lost.length) kept.push(`drops ${lost.join(" ")}`);
  return `${kept.join("\n")}\n`;
}
