// The page: joins editors, module and timeline, and keeps links.
const at = (id) => document.getElementById(id);
const tip = at("tip");
let start = null;
let shown = null; // the last run

const noWords = { reserved: [], contextual: [], kinds: [], algorithm: [], functions: [], names: [], lines: [], facts: [] };
const words = () => start?.words ?? noWords;
const policy = new Editor(at("policy"), "Policy", (text) => colourPolicy(text, words()), ask);
const arrivals = new Editor(at("arrivals"), "Arrivals", (text) => colourArrivals(text, words()), ask);
const timeline = new Timeline(at("timeline"), {
  move: (number, ns) => arrivals.rewrite(withTime(arrivals.text, number, ns)),
  remove: (number) => arrivals.rewrite(without(arrivals.text, number, shown.packets[number].name)),
  add: (like, ns) => arrivals.rewrite(withPacket(arrivals.text, like, new Set(shown.packets.map((packet) => packet.name)), ns).text),
  edit: (number) => arrivals.go({ line: packetLines(arrivals.text).found[number] + 1, column: 1 }),
  show: showTip,
  hide: hideTip,
});

function bytesOf(base64) {
  return Uint8Array.from(atob(base64.replace(/\s+/g, "")), (c) => c.charCodeAt(0));
}
const engine = new Engine(bytesOf(at("wasm").textContent), at("worker").textContent, started, answered);

function started(first) {
  if (start) return;
  start = first;
  at("sample").append(new Option("your own", ""), ...start.samples.map(({ name, title }) => new Option(title, name)));
  if (!readLink()) choose(start.samples[0].name);
}

function ask() {
  if (!start) return;
  if (at("sample").value && !same(at("sample").value)) at("sample").value = "";
  document.body.classList.add("asked");
  engine.ask({ policy: policy.text, arrivals: arrivals.text, link: at("link").value });
}

const sample = (name) => start.samples.find((one) => one.name === name);
function same(name) {
  const one = sample(name);
  return one && one.policy === policy.text && one.arrivals === arrivals.text && at("link").value === "";
}

function choose(name) {
  const one = sample(name);
  if (!one) return false;
  at("sample").value = name;
  at("about").textContent = one.about;
  fill(one.policy, one.arrivals, "");
  return true;
}

function fill(policyText, arrivalsText, link) {
  clear();
  at("link").value = link;
  policy.text = policyText;
  arrivals.text = arrivalsText;
  ask();
}

// Takes away what was said of other texts.
function clear() {
  shown = null;
  timeline.show(null);
  for (const id of ["turns", "order", "diagnostics", "faults", "cost"]) at(id).replaceChildren();
  at("drawing").removeAttribute("src");
}

// What the module said of a question, or of none if it does not run. An answer that texts have overtaken is shown, but marks nothing in them.
function answered(answer, question) {
  const fresh = !question || (question.policy === policy.text && question.arrivals === arrivals.text);
  if (fresh) {
    const marks = answer.diagnostics.map((one) => ({ start: indexOf(policy.text, { line: one.line, column: one.column }), end: indexOf(policy.text, one.end), severity: one.severity }));
    policy.mark(marks.filter((mark) => mark.severity !== "note"));
    list(at("diagnostics"), answer.diagnostics.map((one) => diagnostic(one)));
    const fault = answer.arrivals_error;
    const place = fault && indexOf(arrivals.text, fault);
    arrivals.mark(fault ? [{ start: place, end: Math.max(place, arrivals.text.slice(place).search(/\s|$/) + place), severity: "error" }] : []);
    const faults = [];
    if (fault) faults.push(diagnostic({ ...fault, severity: "error", code: "", notes: [], fix: null }, arrivals));
    if (answer.error) faults.push(make("li", "error", answer.error));
    list(at("faults"), faults);
  }
  const stale = !answer.run;
  for (const id of ["timeline", "turns", "order"]) at(id).classList.toggle("stale", stale);
  if (answer.run) showRun(answer.run);
  if (answer.drawing) {
    at("drawing").src = `data:image/svg+xml,${encodeURIComponent(answer.drawing)}`;
    at("drawing").alt = `The policy as a graph: classes ${answer.classes.join(", ")}`;
  }
  if (answer.cost) at("cost").textContent = answer.cost;
  document.body.dataset.answers = Number(document.body.dataset.answers ?? 0) + 1;
}

const list = (host, items) => host.replaceChildren(...items);

// A diagnostic as an item, with its correction as a button.
function diagnostic(one, editor = policy) {
  const item = make("li", one.severity);
  const place = item.appendChild(make("button", "place", `${one.line}:${one.column}`));
  place.type = "button";
  place.addEventListener("click", () => editor.go(one));
  if (one.code) item.append(make("span", "code", one.code));
  item.append(one.message, make("span", "help", [one.help, ...(one.notes ?? [])].filter(Boolean).join(" · ")));
  if (one.fix && editor === policy) {
    const button = item.appendChild(make("button", "fix"));
    button.type = "button";
    button.append("Fix: ", make("code", "", one.fix.write ?? (one.fix.text || "take it out")));
    button.addEventListener("click", () => policy.replace(indexOf(policy.text, one.fix.start), indexOf(policy.text, one.fix.end), one.fix.text));
  }
  return item;
}

function showRun(run) {
  shown = run;
  timeline.show(run);
  at("turns").replaceChildren(turnsTable(run, timeline.colours));
  const names = (numbers) => numbers.map((number) => run.packets[number].name).join(" ") || "nothing";
  const line = at("order");
  const real = run.turns.map((turn) => turn.packet);
  line.replaceChildren(pair("Order", names(real), "order-now"));
  if (run.pifo) {
    const other = run.pifo.map((departure) => departure.packet);
    line.append(pair("A PIFO", names(other) === names(real) ? "the same" : names(other), "order-pifo"));
  }
  const lost = run.packets.filter((packet) => packet.fate === "dropped" || packet.fate === "refused");
  if (lost.length) line.append(pair("Dropped", lost.map((packet) => packet.name).join(" "), "order-drops"));
  if (run.cut) line.append(make("span", "bad", "cut: it takes too long"));
  if (run.stated && !run.cut) line.append(run.difference ? make("span", "bad", run.difference) : make("span", "good", "✓ as expected"));
  if (run.difference) {
    const keep = line.appendChild(make("button", "", "Expect this order"));
    keep.type = "button";
    keep.addEventListener("click", () => arrivals.rewrite(withExpected(arrivals.text, shown)));
  }
}

function pair(label, text, id) {
  const one = make("span");
  const bold = make("b", "", text);
  bold.id = id;
  one.append(`${label}: `, bold);
  return one;
}

function showTip(number, box) {
  if (!shown?.packets[number]) return;
  tip.replaceChildren(describe(shown, number));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(box.left, 8), innerWidth - width - 8);
  const below = box.bottom + 10 + height < innerHeight;
  tip.style.left = `${Math.max(left, 8)}px`;
  tip.style.top = `${below ? box.bottom + 10 : Math.max(box.top - height - 10, 8)}px`;
  at("turns").querySelectorAll("tr").forEach((row) => row.classList.toggle("on", row.dataset.packet === String(number)));
}

function hideTip() {
  tip.hidden = true;
}

// A link has the texts in its fragment, which no browser sends anywhere.
function writeLink() {
  const name = at("sample").value;
  if (name && same(name)) return `#sample=${name}`;
  const bytes = new TextEncoder().encode(JSON.stringify([policy.text, arrivals.text, at("link").value]));
  const base64 = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `#text=${base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

function readLink() {
  const [, kind, value] = /^#(sample|text)=(.+)$/.exec(location.hash) ?? [];
  if (kind === "sample") return choose(value);
  if (kind !== "text") return false;
  try {
    const bytes = bytesOf(value.replaceAll("-", "+").replaceAll("_", "/"));
    const [policyText, arrivalsText, link] = JSON.parse(new TextDecoder().decode(bytes)).map(String);
    at("sample").value = "";
    at("about").textContent = "From a link.";
    fill(policyText, arrivalsText, link);
    return true;
  } catch {
    at("about").textContent = "The link holds no policy; this is the first example.";
    return false;
  }
}

async function share() {
  history.replaceState(null, "", writeLink());
  const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  at("share").textContent = copied ? "Copied" : "In the address bar";
  setTimeout(() => { at("share").textContent = "Copy link"; }, 2000);
}

const dark = matchMedia("(prefers-color-scheme: dark)");
function theme(isDark) {
  document.documentElement.style.colorScheme = isDark ? "dark" : "light";
  document.documentElement.classList.toggle("dark", isDark);
  at("theme").textContent = isDark ? "Light" : "Dark";
}
theme(dark.matches);
dark.addEventListener("change", () => theme(dark.matches));
at("theme").addEventListener("click", () => theme(!document.documentElement.classList.contains("dark")));
at("share").addEventListener("click", share);
at("sample").addEventListener("change", () => choose(at("sample").value));
at("link").addEventListener("input", ask);
at("add").addEventListener("click", () => {
  const like = shown?.packets.at(-1) ?? { name: "p0", bytes: 1000, class: "default", flow: null };
  const names = new Set(shown?.packets.map((packet) => packet.name));
  arrivals.rewrite(withPacket(arrivals.text, like, names, like.at_ns ?? 0).text);
});
addEventListener("hashchange", readLink);
addEventListener("scroll", hideTip, { passive: true });
addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
