// An editor: a textarea without ink above the same text in colours, with marks below what is wrong.
// It keeps what a textarea gives: keyboard, undo, screen readers.

// The place of a line and a column, both from 1 and in characters, as an index into the text.
function indexOf(text, { line, column }) {
  let at = 0;
  for (let i = 1; i < line; i++) {
    const end = text.indexOf("\n", at);
    if (end < 0) return text.length;
    at = end + 1;
  }
  for (let i = 1; i < column && at < text.length && text[at] !== "\n"; i++) at += text.codePointAt(at) > 0xffff ? 2 : 1;
  return at;
}

class Editor {
  constructor(host, label, colour, changed) {
    this.colour = colour;
    this.marks = [];
    this.gutter = host.appendChild(make("div", "gutter"));
    this.gutter.setAttribute("aria-hidden", "true");
    const pane = host.appendChild(make("div", "pane"));
    this.ink = pane.appendChild(make("pre"));
    this.ink.setAttribute("aria-hidden", "true");
    this.area = pane.appendChild(make("textarea"));
    Object.assign(this.area, { spellcheck: false, autocapitalize: "off", autocomplete: "off", wrap: "off" });
    this.area.setAttribute("aria-label", label);
    this.area.addEventListener("input", () => { this.marks = []; this.paint(); changed(); });
    this.changed = changed;
  }

  get text() {
    return this.area.value;
  }

  // Sets the text without a way back; for another example.
  set text(text) {
    this.area.value = text;
    this.marks = [];
    this.paint();
  }

  // Replaces a part of the text, such that the editor's undo knows it.
  replace(start, end, text) {
    this.area.focus({ preventScroll: true });
    this.area.setSelectionRange(start, end);
    const done = text === "" ? start === end || document.execCommand("delete") : document.execCommand("insertText", false, text);
    if (!done) {
      this.area.setRangeText(text, start, end, "end");
      this.area.dispatchEvent(new Event("input"));
    }
  }

  // Replaces the text from outside of the editor, without taking the focus.
  rewrite(text) {
    const { selectionStart, selectionEnd } = this.area;
    this.text = text;
    this.area.setSelectionRange(selectionStart, selectionEnd);
    this.changed();
  }

  go(position) {
    const at = indexOf(this.text, position);
    this.area.focus();
    this.area.setSelectionRange(at, at);
  }

  // Marks of the form { start, end, severity }.
  mark(marks) {
    this.marks = marks;
    this.paint();
  }

  paint() {
    const text = this.text;
    const pieces = this.colour(text);
    const edges = new Set([0, text.length]);
    for (const [start, end] of pieces) edges.add(start).add(end);
    for (const { start, end } of this.marks) edges.add(start).add(end);
    const sorted = [...edges].sort((a, b) => a - b);
    const ink = document.createDocumentFragment();
    let piece = 0;
    sorted.forEach((from, i) => {
      for (const mark of this.marks) if (mark.start === from && mark.end === from) ink.append(make("span", "empty-mark"));
      const to = sorted[i + 1];
      if (to === undefined) return;
      while (piece < pieces.length && pieces[piece][1] <= from) piece += 1;
      const own = piece < pieces.length && pieces[piece][0] <= from ? pieces[piece][2] : "";
      const mark = this.marks.find(({ start, end }) => start <= from && to <= end);
      const classes = `${own}${mark ? ` ${mark.severity}-mark` : ""}`.trim();
      ink.append(classes ? make("span", classes, text.slice(from, to)) : text.slice(from, to));
    });
    ink.append("\n");
    this.ink.replaceChildren(ink);
    this.gutter.textContent = Array.from({ length: text.split("\n").length }, (_, i) => i + 1).join("\n");
  }
}

function make(name, classes, text) {
  const element = document.createElement(name);
  if (classes) element.className = classes;
  if (text !== undefined) element.textContent = text;
  return element;
}
