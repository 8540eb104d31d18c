"use strict";
// Draws the charts of a weftline report: reads the element "charts", one entry for each element with data-chart.
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
  const hidden = new Map(); // group -> set of hidden names
  let plots = [];

  const prefixes = {
    bits_per_sec: [[1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"], [1, "b/s"]],
    bytes: [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
    latency: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
  };
  const digits = (v) => String(Number(v.toPrecision(3)));
  function write(unit, v) {
    if (v == null) return "–";
    if (unit === "seconds") return v.toFixed(2) + " s";
    const [factor, name] = (prefixes[unit] || [[1, ""]]).find(([f]) => Math.abs(v) >= f * 0.9995) || prefixes[unit]?.at(-1) || [1, ""];
    return (digits(v / factor) + " " + name).trim();
  }
  // One prefix for a whole axis, found from its largest value.
  function prefix(chart, largest) {
    if (chart.y.unit === "latency" || !prefixes[chart.y.unit]) return [1, ""];
    return prefixes[chart.y.unit].find(([f]) => largest >= f) || prefixes[chart.y.unit].at(-1);
  }
  const largestOf = (chart) => chart.y.range ? chart.y.range[1]
    : chart.columns.slice(1).reduce((m, c) => c.reduce((n, v) => Math.max(n, v ?? 0), m), 0);

  function bands(chart) {
    return (u) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.fillStyle = css("band");
      for (const [from, to] of chart.bands) {
        const left = u.valToPos(from, "x", true);
        ctx.fillRect(left, bbox.top, u.valToPos(to, "x", true) - left, bbox.height);
      }
      ctx.restore();
    };
  }

  // The value of a series in the row at or before i: rows belong to different series where these have different times.
  function valueAt(u, s, i) {
    for (let k = i; k >= Math.max(0, i - 8); k--) if (u.data[s][k] != null) return u.data[s][k];
    return null;
  }

  function tooltip(chart) {
    let tip;
    return {
      init: (u) => {
        tip = document.createElement("div");
        tip.className = "tip";
        u.over.appendChild(tip);
        u.over.addEventListener("mouseleave", () => { tip.style.display = "none"; });
      },
      setCursor: (u) => {
        const { idx, left, top } = u.cursor;
        // Charts that only follow another one's cursor show the line, not the box.
        if (idx == null || left < 0 || !u.over.matches(":hover")) { tip.style.display = "none"; return; }
        tip.replaceChildren();
        const head = document.createElement("div");
        head.textContent = write("seconds", u.data[0][idx]);
        tip.appendChild(head);
        chart.series.forEach((s, n) => {
          if (!u.series[n + 1].show) return;
          const line = document.createElement("div");
          const mark = document.createElement("i");
          mark.style.borderTopColor = css(s.colour);
          line.append(mark, s.name + "  " + write(chart.y.unit, valueAt(u, n + 1, idx)));
          tip.appendChild(line);
        });
        tip.style.display = "block";
        const flip = left > u.over.clientWidth / 2;
        tip.style.left = (flip ? left - tip.offsetWidth - 14 : left + 14) + "px";
        tip.style.top = Math.max(0, Math.min(top - 20, u.over.clientHeight - tip.offsetHeight)) + "px";
      },
    };
  }

  function seriesOptions(chart) {
    const off = hidden.get(chart.group);
    // Equal shares lie upon one another: later step lines are thinner, so that those below show at their edges.
    let width = 4.1;
    return chart.series.map((s) => {
      const options = { label: s.name, stroke: css(s.colour), width: 1.75, spanGaps: true, points: { show: false }, show: !off?.has(s.name) };
      if (s.shape === "step" || s.shape === "reference") options.paths = uPlot.paths.stepped({ align: 1 });
      if (s.shape === "step") options.width = width = Math.max(1.25, width - 0.85);
      if (s.shape === "reference") Object.assign(options, { width: 1, dash: [5, 4] });
      if (s.shape === "points") Object.assign(options, { width: 1.25, points: { show: true, size: 4.5, width: 1, fill: css(s.colour) } });
      return options;
    });
  }

  function axes(chart) {
    const [factor, name] = prefix(chart, largestOf(chart));
    const look = { stroke: css("soft"), font, labelFont: font, labelSize: 22, labelGap: 2,
      grid: { stroke: css("grid"), width: 1 }, ticks: { stroke: css("grid"), width: 1, size: 5 } };
    const unit = chart.y.unit === "latency" || !name ? "" : " [" + name + "]";
    const log = chart.y.scale === "log";
    const tick = (v) => v == null ? "" : chart.y.unit === "latency" ? write("latency", v) : digits(v / factor);
    // Of a logarithmic axis' marks, 1 has a label always, 2 and 5 where there is room for them.
    const filter = (u, splits) => {
      const decades = Math.log10(u.scales.y.max / u.scales.y.min);
      const labelled = decades < 1.2 ? [1, 2, 3, 5, 7] : decades < 3.2 ? [1, 2, 5] : [1];
      return splits.map((v) => v > 0 && labelled.includes(Math.round(v / 10 ** Math.floor(Math.log10(v) + 1e-9))) ? v : null);
    };
    const y = { ...look, label: chart.y.label + unit, size: 54, values: (u, vs) => vs.map(tick) };
    if (log) y.filter = filter;
    return [{ ...look, label: chart.x.label + (chart.x.unit === "seconds" ? " [s]" : ""), size: 34, values: (u, vs) => vs.map((v) => digits(v)) }, y];
  }

  function scales(chart) {
    const y = { distr: chart.y.scale === "log" ? 3 : 1, log: 10 };
    if (chart.y.range) y.range = () => chart.y.range;
    else if (chart.y.scale === "log") y.range = (u, low, high) => [(low ?? 1e-6) / 1.3, (high ?? 1) * 1.3];
    else y.range = (u, low, high) => [0, (high || 1) * 1.06];
    const x = { time: false };
    if (chart.x.range) {
      // The whole range at first; afterwards whatever was zoomed to.
      let first = true;
      x.range = (u, low, high) => { const whole = first || low == null; first = false; return whole ? chart.x.range : [low, high]; };
    }
    return { x, y };
  }

  const heightOf = (chart, width) => Math.round(Math.min(340, Math.max(230, width * (width > 700 ? 0.28 : 0.52))));

  function draw() {
    plots.forEach(({ plot }) => plot.destroy());
    plots = [...document.querySelectorAll(".plot")].map((element) => {
      const chart = charts[element.dataset.chart];
      const width = Math.max(240, element.clientWidth);
      const tip = tooltip(chart);
      const plot = new uPlot({
        width, height: heightOf(chart, width), scales: scales(chart), axes: axes(chart),
        series: [{}, ...seriesOptions(chart)], legend: { show: false }, padding: [10, 12, 0, 0],
        cursor: { sync: { key: "group" + chart.group, scales: ["x", null] }, points: { size: 6 }, drag: { x: true, y: false } },
        hooks: { drawClear: [bands(chart)], init: [tip.init], setCursor: [tip.setCursor] },
      }, chart.columns, element);
      // uPlot zooms out to the data's own ends; ours may be wider.
      if (chart.x.range) plot.over.addEventListener("dblclick", () => plot.setScale("x", { min: chart.x.range[0], max: chart.x.range[1] }));
      return { plot, chart, element };
    });
  }

  document.querySelectorAll(".group").forEach((group) => {
    const id = Number(group.dataset.group);
    hidden.set(id, new Set());
    group.querySelectorAll("button[data-series]").forEach((button) => button.addEventListener("click", () => {
      const name = button.dataset.series;
      const off = hidden.get(id);
      off.has(name) ? off.delete(name) : off.add(name);
      button.setAttribute("aria-pressed", String(!off.has(name)));
      for (const { plot, chart } of plots) {
        const at = chart.series.findIndex((s) => s.name === name);
        if (chart.group === id && at >= 0) plot.setSeries(at + 1, { show: !off.has(name) });
      }
    }));
  });

  let timer;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => plots.forEach(({ plot, chart, element }) => {
      const width = Math.max(240, element.clientWidth);
      plot.setSize({ width, height: heightOf(chart, width) });
    }), 80);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  // Paper is white.
  addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; draw(); });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.theme; draw(); });
  draw();
})();
