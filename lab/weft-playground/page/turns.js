// Turns as tables: the heads between which the engine chose, with their ranks at each order.

// The orders in which the heads of a turn stand, as columns.
function ordersOf(heads) {
  const orders = new Map();
  for (const { orders: own } of heads) for (const { node, discipline } of own) orders.set(`${node}\u0000${discipline}`, labelOf(node, discipline));
  return [...orders];
}

// A node without a name of its own is named after the one above it, with a number.
const labelOf = (node, discipline) => (node.includes("#") ? discipline : `${discipline} at ${node}`);

const rankIn = (head, key) => {
  const order = head.orders.find(({ node, discipline }) => `${node}\u0000${discipline}` === key);
  if (!order) return "–";
  return order.held ? `${order.rank}, held` : order.rank;
};

// What is known of a packet, for the tip.
function describe(run, number) {
  const tip = document.createDocumentFragment();
  const packet = run.packets[number];
  const facts = [packet.class, packet.flow && `flow ${packet.flow}`, `${packet.bytes} B`].filter(Boolean).join(" · ");
  const title = tip.appendChild(make("p"));
  title.append(make("b", "", packet.name), ` · ${facts}`);
  const gone = packet.sent_ns === null ? ({ dropped: "dropped", refused: "refused: its class is full", waiting: "still waiting" })[packet.fate]
    : `leaves at ${time(packet.sent_ns)}, having waited ${time(packet.sent_ns - packet.at_ns)}`;
  tip.append(make("p", "dim", `arrives at ${time(packet.at_ns)}; ${gone}`));
  const turn = run.turns.find((one) => one.packet === number);
  if (turn) tip.append(tableOf(run, turn));
  return tip;
}

function tableOf(run, turn) {
  const orders = ordersOf(turn.heads);
  const table = make("table");
  const head = table.appendChild(make("tr"));
  head.append(make("th", "", `at ${time(turn.at_ns)}`), ...orders.map(([, label]) => make("th", "", label)));
  turn.heads.forEach((one, i) => {
    const row = table.appendChild(make("tr", i === 0 ? "chosen" : ""));
    const limited = one.limited_ns === null ? "" : ` (limited until ${time(one.limited_ns)})`;
    row.append(make("td", "", (i === 0 ? "→ " : "") + run.packets[one.packet].name + limited));
    row.append(...orders.map(([key]) => make("td", "", rankIn(one, key))));
  });
  return table;
}

// All turns: the time, what left, and the ranks of all heads.
function turnsTable(run, colours) {
  const table = make("table");
  const head = table.appendChild(make("thead")).appendChild(make("tr"));
  for (const title of ["time", "leaves", "the next packets of the flows, with their ranks from the link to the class"]) head.append(make("th", "", title));
  const body = table.appendChild(make("tbody"));
  for (const turn of run.turns) {
    const row = body.appendChild(make("tr"));
    row.dataset.packet = turn.packet;
    row.append(make("td", "", time(turn.at_ns)), make("td"), make("td"));
    row.children[1].append(chip(run, turn.packet, colours));
    for (const one of turn.heads) {
      const ranks = one.orders.map(({ rank, held }) => (held ? `${rank} (held)` : rank)).join(" › ");
      const limited = one.limited_ns === null ? "" : `, limited until ${time(one.limited_ns)}`;
      const whole = row.children[2].appendChild(make("span", "choice"));
      whole.append(chip(run, one.packet, colours), make("span", "dim", ranks + limited));
      whole.title = one.orders.map(({ node, discipline, rank }) => `${labelOf(node, discipline)}: ${rank}`).join("\n");
    }
  }
  return table;
}

function chip(run, number, colours) {
  const one = make("span", "chip", run.packets[number].name);
  one.style.background = `var(--c${colours.get(number) ?? 0})`;
  return one;
}
