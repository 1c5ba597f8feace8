// The figure of all rows: which quantity, which scale, which ops, N and runs.

/** Wire the controls of the section to the figure. */
function startExplorer(data, models) {
  const holder = byId("explorer");
  if (!holder) return;
  const form = byId("explorer-controls");
  const looks = new Map(data.looks.map((look) => [look.key, look]));
  const chosen = (name) => [...form.querySelectorAll(`input[name=${name}]:checked`)].map((input) => input.value);
  const state = () => ({
    quantity: chosen("quantity")[0],
    isLog: chosen("scale")[0] === "log",
    ops: chosen("op"),
    ns: chosen("n").map(Number),
    runs: data.runs.length > 1 ? chosen("run") : data.runs.map((run) => run.letter),
    fit: byId("show-fit").checked,
  });
  const redraw = () => drawExplorer(holder, state(), data, models, looks);
  form.addEventListener("change", redraw);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.all) {
      const boxes = [...form.querySelectorAll(`input[name=${button.dataset.all}]`)];
      const every = boxes.every((box) => box.checked);
      boxes.forEach((box) => { box.checked = !every; });
    } else {
      preset(form, button.dataset.preset, data);
    }
    redraw();
  });
  onNewWidth(holder, redraw);
  preset(form, "busbw", data);
  redraw();
}

/** One of the views that answer a question. */
function preset(form, name, data) {
  const largest = Math.max(...data.world_sizes);
  const main = data.ops.includes("all_reduce") ? "all_reduce" : data.ops[0];
  const every = name === "busbw";
  const set = (group, keep) => form.querySelectorAll(`input[name=${group}]`).forEach((box) => { box.checked = keep(box.value); });
  set("quantity", (value) => value === (name === "latency" ? "time" : "busbw"));
  set("scale", (value) => value === (name === "latency" ? "log" : "linear"));
  set("op", (value) => every || value === main);
  set("n", (value) => !every || Number(value) === largest);
  set("run", () => true);
  byId("show-fit").checked = name === "latency";
}

/** Call back when the element has become wider or narrower, as on turning a phone. */
function onNewWidth(holder, callback) {
  let width = holder.clientWidth;
  let timer = 0;
  new ResizeObserver(() => {
    if (Math.abs(holder.clientWidth - width) < 24) return;
    width = holder.clientWidth;
    clearTimeout(timer);
    timer = setTimeout(callback, 120);
  }).observe(holder);
}

const QUANTITIES = {
  time: { title: "time of a call", of: (s, t) => t },
  algbw: { title: "algbw (GB/s)", of: (s, t) => s / t / 1e9 },
  busbw: { title: "busbw (GB/s)", of: (s, t, factor) => (s / t / 1e9) * factor },
};

/** Colour says the first thing that varies among the chosen lines, the dash the second, the marker the third. */
function channels(state) {
  const counts = { op: state.ops.length, n: state.ns.length, run: state.runs.length };
  const varying = ["op", "n", "run"].filter((name) => counts[name] > 1);
  const [colour, dash, shape] = [...varying, ...["op", "n", "run"].filter((name) => !varying.includes(name))];
  return { colour, dash, shape, varying };
}

function lookOf(kind, value, looks) {
  return looks.get(kind === "op" ? value : kind === "n" ? `N=${value}` : `run ${value}`);
}

function drawExplorer(holder, state, data, models, looks) {
  const how = channels(state);
  drawSwatches(state, data, looks, how);
  const orders = { op: data.ops, n: data.world_sizes, run: data.runs.map((run) => run.letter) };
  const place = (kind, value) => Math.max(orders[kind].filter((v) => state[`${kind}s`].includes(v)).indexOf(value), 0);
  const style = (part) => ({
    color: `var(${lookOf(how.colour, part[how.colour], looks).var})`,
    dash: data.dashes[(how.varying.length > 1 ? place(how.dash, part[how.dash]) : part.variantIndex || 0) % data.dashes.length],
    shape: lookOf(how.varying.length > 2 ? how.shape : how.colour, part[how.varying.length > 2 ? how.shape : how.colour], looks).shape,
  });
  const lines = data.lines
    .map((line, id) => ({ ...line, id, variantIndex: variantIndex(data.lines, line) }))
    .filter((line) => state.ops.includes(line.op) && state.ns.includes(line.n) && state.runs.includes(line.run));
  byId("explorer-empty").hidden = lines.length > 0;
  holder.hidden = lines.length === 0;
  if (lines.length === 0) return;
  const quantity = QUANTITIES[state.quantity];
  const factor = (op, n) => FACTORS[data.factors[op]](n);
  const points = lines.flatMap((line) => linePoints(line, quantity, factor(line.op, line.n), data, style(line)));
  const curves = state.fit ? fitPoints(state, models, quantity, factor, style) : [];
  const sizes = points.map((point) => point.x);
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const width = holder.clientWidth;
  const y = valueAxis([...points, ...curves].flatMap((p) => [p.y, p.low ?? p.y, p.high ?? p.y]).filter((v) => v > 0), state.isLog, state.quantity === "time", quantity.title);
  const labels = width < 620 ? [] : endLabels(lines, points, y, state, how, style, data);
  draw(holder, explorerSpec({ points, curves, labels, x: sizeAxis(least, most, width - 120), y, height: chartHeight(width), title: quantity.title }));
}

function chartHeight(width) {
  return width < 620 ? 300 : 400;
}

function variantIndex(lines, line) {
  const variants = [...new Set(lines.filter((each) => each.op === line.op && each.run === line.run).map((each) => each.variant))];
  return variants.indexOf(line.variant);
}

function linePoints(line, quantity, factor, data, look) {
  const runs = data.runs.length > 1 ? ` · run ${line.run}` : "";
  const name = `${line.op}${line.variant ? ` ${line.variant}` : ""}, N = ${line.n}${runs}`;
  return line.points.map(([s, t, low, high, rows, mark]) => {
    const ends = low === null ? [null, null] : [quantity.of(s, low, factor), quantity.of(s, high, factor)];
    const known = low === null ? "not known" : `${formatTime(low)} to ${formatTime(high)}`;
    return {
      ...look,
      line: line.id,
      x: s,
      y: quantity.of(s, t, factor),
      low: low === null ? null : Math.min(...ends),
      high: low === null ? null : Math.max(...ends),
      marked: data.texts[mark] !== "",
      said: `${name}, ${formatSize(s)}: ${formatTime(t)}, busbw ${formatRate((s / t) * factor)}`,
      tip: [
        name,
        ["S", formatSize(s)],
        ["time", formatTime(t)],
        [rows > 1 ? `range of ${rows} rows` : "interval", known],
        ["algbw", formatRate(s / t)],
        ["busbw", formatRate((s / t) * factor)],
        ...(data.texts[mark] ? [["with care", data.texts[mark]]] : []),
      ],
    };
  });
}

/** The fitted curves of the chosen ops, N and runs, with their intervals. */
function fitPoints(state, models, quantity, factor, style) {
  const found = [];
  for (const [run, model] of models) {
    if (!state.runs.includes(run)) continue;
    model.curves.forEach((curve, index) => {
      const part = { op: curve.collective, n: curve.world_size, run };
      if (!state.ops.includes(part.op) || !state.ns.includes(part.n) || !(part.op in DATA.factors)) return;
      const look = style(part);
      for (const x of sizesBetween(curve.least, curve.most, 80)) {
        const [middle, low, high] = curve.at(x).map((t) => quantity.of(x, t, factor(part.op, part.n)));
        found.push({ ...look, line: `fit ${run} ${index}`, x, y: middle, low: Math.min(low, high), high: Math.max(low, high) });
      }
    });
  }
  return found;
}

function endLabels(lines, points, y, state, how, style, data) {
  const height = 400;
  if (lines.length * 16 > height) return [];
  const forward = (value) => (state.isLog ? Math.log(value) : value);
  const [low, high] = [forward(y.low), forward(y.high)];
  const pixel = (value) => height * (1 - (forward(value) - low) / (high - low));
  const ends = lines.map((line) => points.filter((point) => point.line === line.id).pop());
  const places = spread(ends.map((end) => pixel(end.y)), 16, 8, height - 8);
  return lines.map((line, i) => {
    const at = low + (1 - places[i] / height) * (high - low);
    const words = how.varying.map((kind) => ({ op: line.op, n: `N = ${line.n}`, run: `run ${line.run}` })[kind]);
    const text = [...(words.length ? words : [line.op]), line.variant].filter(Boolean).join(" ");
    return { text, y: state.isLog ? Math.exp(at) : at, color: style(line).color };
  });
}

function explorerSpec({ points, curves, labels, x, y, height, title }) {
  const encode = (more) => ({
    x: { field: "x", type: "quantitative", ...x },
    y: { field: "y", type: "quantitative", scale: y.scale, axis: y.axis },
    color: { field: "color", type: "nominal", scale: null },
    ...more,
  });
  const detail = { field: "line", type: "nominal" };
  const dash = { field: "dash", type: "nominal", scale: null };
  const layer = [];
  if (curves.length) {
    const band = { field: "color", type: "nominal", scale: null };
    layer.push({
      data: { values: curves },
      mark: { type: "area", opacity: 0.16, clip: true, aria: false },
      encoding: { ...encode({ detail }), y: { field: "low", type: "quantitative", scale: y.scale, axis: y.axis }, y2: { field: "high" }, fill: band, color: undefined },
    });
    layer.push({ data: { values: curves }, mark: { type: "line", strokeWidth: 1.5, clip: true, aria: false }, encoding: encode({ detail }) });
  }
  const known = points.filter((point) => point.low !== null && point.high !== null);
  if (known.length) {
    layer.push({ data: { values: known }, mark: { type: "rule", strokeWidth: 1.5, opacity: 0.7, clip: true, aria: false }, encoding: { ...encode(), y: { field: "low", type: "quantitative", scale: y.scale, axis: y.axis }, y2: { field: "high" } } });
  }
  if (!curves.length) {
    layer.push({ data: { values: points }, mark: { type: "line", strokeWidth: 2, strokeJoin: "round", aria: false }, encoding: encode({ detail, strokeDash: dash }) });
  }
  const marked = points.filter((point) => point.marked);
  if (marked.length) {
    layer.push({ data: { values: marked }, mark: { type: "point", shape: "circle", size: 170, filled: false, strokeWidth: 1.75, stroke: "var(--alarm)", aria: false }, encoding: { ...encode(), color: undefined } });
  }
  layer.push({
    data: { values: points },
    params: [{ name: "hover", select: { type: "point", on: "pointerover", clear: "pointerout", nearest: true } }],
    mark: { type: "point", filled: true, opacity: 1 },
    encoding: encode({
      shape: { field: "shape", type: "nominal", scale: null },
      size: { condition: { param: "hover", empty: false, value: 150 }, value: 46 },
      description: { field: "said", type: "nominal" },
      tooltip: { field: "said", type: "nominal" },
    }),
  });
  if (labels.length) {
    layer.push({
      data: { values: labels },
      mark: { type: "text", align: "left", baseline: "middle", dx: 10, clip: false, aria: false },
      encoding: { x: { value: "width" }, y: { field: "y", type: "quantitative", scale: y.scale, axis: y.axis }, text: { field: "text", type: "nominal" }, color: { field: "color", type: "nominal", scale: null } },
    });
  }
  return { $schema: "https://vega.github.io/schema/vega-lite/v6.json", height, layer, description: `${title} over message size` };
}

const SHAPES = {
  circle: "M0-4a4 4 0 1 0 .01 0z", square: "M-4-4h8v8h-8z", "triangle-up": "M0-5 5 4-5 4z", "triangle-down": "M0 5 5-4-5-4z",
  diamond: "M0-5 5 0 0 5-5 0z", cross: "M-2-5h4v3h3v4h-3v3h-4v-3h-3v-4h3z", "triangle-right": "M5 0-4 5-4-5z", "triangle-left": "M-5 0 4 5 4-5z",
};

/** A small picture of what stands for a choice: a line with a colour or dash, and a marker. */
function drawSwatch(holder, { stroke, dash, marker, fill }) {
  const make = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const svg = make("svg", { viewBox: "-12 -7 24 14", width: 24, height: 14, "aria-hidden": "true" });
  if (stroke) svg.append(make("path", { d: "M-12 0h24", stroke, "stroke-width": 2, "stroke-dasharray": (dash || []).join(" ") }));
  if (marker) svg.append(make("path", { d: SHAPES[marker] || SHAPES.circle, fill }));
  holder.replaceChildren(svg);
}

/** Beside each choice, what stands for it in the figure: a colour, a dash or a marker. */
function drawSwatches(state, data, looks, how) {
  const orders = { op: data.ops, n: data.world_sizes, run: data.runs.map((run) => run.letter) };
  for (const swatch of document.querySelectorAll("#explorer-controls [data-swatch]")) {
    const [kind, text] = [swatch.dataset.swatch, swatch.dataset.value];
    const value = kind === "n" ? Number(text) : text;
    const selected = orders[kind].filter((each) => state[`${kind}s`].includes(each));
    const look = lookOf(kind, value, looks);
    const colour = `var(${look.var})`;
    if (!selected.includes(value)) drawSwatch(swatch, {});
    else if (kind === how.colour) drawSwatch(swatch, { stroke: colour, marker: look.shape, fill: colour });
    else if (kind === how.dash && how.varying.length > 1) {
      drawSwatch(swatch, { stroke: "var(--ink)", dash: data.dashes[selected.indexOf(value) % data.dashes.length] });
    } else if (kind === how.shape && how.varying.length > 2) drawSwatch(swatch, { marker: look.shape, fill: "var(--ink)" });
    else drawSwatch(swatch, {});
  }
}
