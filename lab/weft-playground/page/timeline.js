// The timeline: arrivals above, one row for each flow; what leaves below, and the order of a PIFO where that can be said.
const ROW = { bar: 20, gap: 4, pad: 6, right: 16, axis: 24, least: 19 };
const LETTER = 6.8; // the width of one, at least what most are
const COLOURS = 8;

// A time for people.
function time(ns) {
  for (const [unit, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) if (ns >= unit) return `${Number((ns / unit).toPrecision(6))} ${name}`;
  return `${ns} ns`;
}

// The step of 1, 2 or 5 times a power of ten at or above a length.
function niceStep(length) {
  const power = 10 ** Math.floor(Math.log10(Math.max(length, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= length) ?? power * 10;
}

const rowOf = (packet) => `${packet.class}\u0000${packet.flow ?? ""}`;

// The rows in the order in which their packets stand in the text.
function rowsOf(run) {
  const rows = new Map();
  run.packets.forEach((packet, number) => {
    const key = rowOf(packet);
    if (!rows.has(key)) rows.set(key, { label: packet.flow ? `${packet.class} · ${packet.flow}` : packet.class, packets: [], colour: rows.size % COLOURS });
    rows.get(key).packets.push(number);
  });
  return [...rows.values()];
}

class Timeline {
  // `acts` has what the page does: move(number, ns), remove(number), add(like, ns), edit(number), show(number, place), hide().
  constructor(host, acts) {
    Object.assign(this, { host, acts, run: null, drag: null });
    this.svg = host.appendChild(draw("svg", { role: "group", "aria-label": "Timeline of arrivals and departures" }));
    new ResizeObserver(() => this.run && this.paint()).observe(host);
    this.svg.addEventListener("pointerdown", (event) => this.press(event));
    this.svg.addEventListener("pointermove", (event) => this.pull(event));
    this.svg.addEventListener("pointerup", (event) => this.release(event));
    this.svg.addEventListener("pointercancel", () => this.settle());
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("focusin", (event) => this.point(event));
    this.svg.addEventListener("focusout", () => this.leave());
    this.svg.addEventListener("pointerover", (event) => this.point(event));
    this.svg.addEventListener("pointerout", () => this.leave());
  }

  show(run) {
    this.run = run;
    if (run && !this.drag) this.measure();
    this.paint();
  }

  // The span of time that is drawn. It stays while a packet is dragged, so that the packet stays below the pointer.
  measure() {
    const ends = this.run.packets.map((packet) => Math.max(packet.at_ns, packet.sent_ns ?? 0) + packet.takes_ns);
    const pifo = (this.run.pifo ?? []).map(({ packet, at_ns }) => at_ns + this.run.packets[packet].takes_ns);
    this.until = Math.max(1000, ...ends, ...pifo) * 1.06;
  }

  paint() {
    const focused = document.activeElement?.dataset?.packet;
    // No event tells that what the pointer was at is gone.
    this.leave();
    if (!this.run) return this.svg.replaceChildren();
    this.width = Math.max(this.host.clientWidth, 280);
    this.left = this.width < 600 ? 92 : 136;
    this.scale = (this.width - this.left - ROW.right) / this.until;
    this.step = niceStep(4 / this.scale);
    const parts = document.createDocumentFragment();
    this.rows = rowsOf(this.run);
    this.colours = new Map(this.rows.flatMap((row) => row.packets.map((number) => [number, row.colour])));
    this.boxes = new Map();
    let top = this.axis(parts, "arrivals");
    for (const row of this.rows) top = this.arrivals(parts, row, top);
    top = this.departures(parts, top + 8, "the link", this.run.turns.map(({ packet, at_ns }) => ({ packet, at_ns })), "departed");
    if (this.run.pifo) top = this.departures(parts, top, "a PIFO", this.run.pifo, "departed pifo");
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${top + 6}`);
    this.svg.style.height = `${top + 6}px`;
    this.grid(parts, top);
    this.svg.replaceChildren(parts);
    if (focused !== undefined) this.svg.querySelector(`.packet[data-packet="${focused}"]`)?.focus({ preventScroll: true });
  }

  x(ns) {
    return this.left + ns * this.scale;
  }

  axis(parts, label) {
    parts.append(draw("text", { x: 10, y: 16, class: "soft" }, label));
    const step = niceStep(90 / this.scale);
    for (let at = 0; at <= this.until; at += step) {
      parts.append(draw("text", { x: this.x(at), y: 16, class: "soft", "text-anchor": at === 0 ? "start" : "middle" }, time(at)));
    }
    return ROW.axis;
  }

  grid(parts, bottom) {
    const lines = document.createDocumentFragment();
    const step = niceStep(90 / this.scale);
    for (let at = 0; at <= this.until; at += step) lines.append(draw("line", { x1: this.x(at), x2: this.x(at), y1: ROW.axis - 2, y2: bottom, class: "grid" }));
    parts.prepend(lines);
  }

  // A row of arrivals. Packets that would cover each other stand below each other.
  arrivals(parts, row, top) {
    const ends = [];
    const placed = row.packets.map((number) => {
      const packet = this.run.packets[number];
      const left = this.x(packet.at_ns);
      const width = Math.max(packet.takes_ns * this.scale, ROW.least);
      let level = ends.findIndex((end) => end <= left + 0.5);
      if (level < 0) level = ends.length;
      ends[level] = left + width;
      return { number, packet, left, width, y: top + ROW.pad + level * (ROW.bar + ROW.gap) };
    });
    const height = ROW.pad * 2 + ends.length * (ROW.bar + ROW.gap) - ROW.gap;
    const back = draw("rect", { x: 0, y: top, width: this.width, height, class: "row" });
    back.dataset.like = row.packets.at(-1);
    parts.append(back, draw("text", { x: 10, y: top + height / 2 + 4, class: "head" }, cut(row.label, Math.floor((this.left - 14) / (LETTER + 1)))));
    for (const { number, packet, left, width, y } of placed) {
      const lost = packet.fate === "sent" ? "" : " lost";
      const leaves = packet.sent_ns === null ? packet.fate : `leaves at ${time(packet.sent_ns)}`;
      parts.append(this.bar(number, `packet${lost}`, left, y, width, `${packet.name}, arrives at ${time(packet.at_ns)}, ${leaves}`));
      this.boxes.set(number, { x: left, y: y + ROW.bar });
    }
    parts.append(draw("line", { x1: 0, x2: this.width, y1: top + height, y2: top + height, class: "rule" }));
    return top + height;
  }

  departures(parts, top, label, departures, kind) {
    parts.append(draw("text", { x: 10, y: top + ROW.pad + ROW.bar / 2 + 4, class: "head" }, label));
    for (const { packet, at_ns } of departures) {
      const { name, takes_ns } = this.run.packets[packet];
      const width = Math.max(takes_ns * this.scale, 2);
      parts.append(this.bar(packet, kind, this.x(at_ns), top + ROW.pad, width, `${name} leaves at ${time(at_ns)}`));
    }
    return top + ROW.pad * 2 + ROW.bar;
  }

  bar(number, kind, x, y, width, label) {
    const group = draw("g", { class: kind, tabindex: kind.startsWith("packet") ? 0 : -1, role: kind.startsWith("packet") ? "button" : "img", "aria-label": label });
    group.dataset.packet = number;
    group.append(draw("rect", { x, y, width, height: ROW.bar, rx: 3, style: `fill: var(--c${this.colours.get(number)})` }));
    const room = Math.floor((width - 4) / LETTER);
    if (room >= 1) group.append(draw("text", { x: x + width / 2, y: y + ROW.bar / 2 + 4, "text-anchor": "middle" }, cut(this.run.packets[number].name, room)));
    return group;
  }

  nanos(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    return Math.max(0, Math.round((x - this.left) / this.scale));
  }

  press(event) {
    if (event.button !== 0 || !this.run) return;
    const bar = event.target.closest(".packet");
    const row = event.target.closest(".row");
    if (bar) {
      const number = Number(bar.dataset.packet);
      this.drag = { number, from: this.nanos(event), at: this.run.packets[number].at_ns, moved: false };
      this.svg.setPointerCapture(event.pointerId);
      bar.focus({ preventScroll: true });
    } else if (row && event.clientX - this.svg.getBoundingClientRect().left >= this.left) {
      this.acts.add(this.run.packets[Number(row.dataset.like)], this.grain(this.nanos(event)));
    }
  }

  grain(ns) {
    return Math.max(0, Math.round(ns / this.step) * this.step);
  }

  pull(event) {
    if (!this.drag) return;
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    const at = this.grain(this.drag.at + (x - this.left) / this.scale - this.drag.from);
    if (!this.drag.moved && Math.abs(at - this.drag.at) < this.step) return;
    this.drag.moved = true;
    this.svg.classList.add("dragging");
    this.acts.hide();
    this.acts.move(this.drag.number, at);
  }

  release() {
    if (this.drag && !this.drag.moved) this.acts.edit(this.drag.number);
    this.settle();
  }

  settle() {
    this.drag = null;
    this.svg.classList.remove("dragging");
    if (this.run) this.show(this.run);
  }

  key(event) {
    const bar = event.target.closest?.(".packet");
    if (!bar) return;
    const number = Number(bar.dataset.packet);
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) this.acts.move(number, Math.max(0, this.grain(this.run.packets[number].at_ns) + by * this.step * (event.shiftKey ? 10 : 1)));
    else if (event.key === "Delete" || event.key === "Backspace") this.acts.remove(number);
    else if (event.key === "Enter" || event.key === " ") this.acts.edit(number);
    else return;
    event.preventDefault();
  }

  // Shows what is known of the packet below the pointer or under the focus.
  point(event) {
    const bar = event.target.closest?.("[data-packet]");
    if (!bar || this.drag) return;
    const number = Number(bar.dataset.packet);
    this.leave();
    this.svg.querySelectorAll(`[data-packet="${number}"]`).forEach((one) => one.classList.add("on"));
    this.acts.show(number, bar.getBoundingClientRect());
  }

  leave() {
    this.svg.querySelectorAll(".on").forEach((one) => one.classList.remove("on"));
    this.acts.hide();
  }
}

const cut = (text, length) => (text.length <= length ? text : `${text.slice(0, Math.max(length - 1, 1))}${length > 2 ? "…" : ""}`);

function draw(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
