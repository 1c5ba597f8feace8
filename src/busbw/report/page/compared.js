// Two runs: the ratio of times over S, one line a curve, with the interval of each row.

function startCompared(data) {
  data.comparisons.forEach((comparison, index) => {
    const holder = byId(`compared-${index}`);
    if (!holder) return;
    const choices = holder.parentElement.querySelector("[data-ops]");
    const redraw = () => {
      const ops = choices && [...choices.querySelectorAll("input:checked")].map((input) => input.value);
      drawCompared(holder, ops ? { ...comparison, rows: comparison.rows.filter((row) => ops.includes(row.op)) } : comparison, data);
    };
    if (choices) {
      const looks = new Map(data.looks.map((look) => [look.key, look]));
      for (const swatch of choices.querySelectorAll("[data-swatch]")) {
        const look = looks.get(swatch.dataset.value);
        if (look) drawSwatch(swatch, { stroke: `var(${look.var})` });
      }
      choices.addEventListener("change", redraw);
    }
    onNewWidth(holder, redraw);
    redraw();
  });
}

function drawCompared(holder, comparison, data) {
  const looks = new Map(data.looks.map((look) => [look.key, look]));
  const ns = [...new Set(comparison.rows.map((row) => row.n))].sort((a, b) => a - b);
  const ops = [...new Set(comparison.rows.map((row) => row.op))];
  const byN = ops.length === 1;
  const rows = comparison.rows.filter((row) => row.s > 0).map((row) => {
    const look = looks.get(byN ? `N=${row.n}` : row.op);
    return {
      ...row,
      color: look ? `var(${look.var})` : "var(--quiet)",
      dash: data.dashes[byN ? 0 : ns.indexOf(row.n) % data.dashes.length],
      real: row.verdict === "slower" || row.verdict === "faster",
      tip: [
        row.curve,
        ["S", formatSize(row.s)],
        [`time ${comparison.a}`, formatTime(row.a_s)],
        [`time ${comparison.b}`, formatTime(row.b_s)],
        ["ratio", `${row.ratio.toFixed(3)} (95 %: ${row.low.toFixed(3)} to ${row.high.toFixed(3)})`],
        ["verdict", row.verdict],
      ],
    };
  });
  holder.hidden = rows.length === 0;
  if (rows.length === 0) return;
  const barred = rows.filter((row) => row.real || ops.length === 1);
  const sizes = rows.map((row) => row.s);
  const x = sizeAxis(Math.min(...sizes), Math.max(...sizes), holder.clientWidth - 60);
  const ends = rows.flatMap((row) => [row.ratio, ...(row.real ? [row.low, row.high] : [])]);
  const [low, high] = [Math.min(...ends, 1 / 1.03), Math.max(...ends, 1.03)];
  const y = { type: "log", base: Math.E, domain: [low / 1.02, high * 1.02], nice: false };
  const axis = { title: `time ${comparison.b} / time ${comparison.a}: above 1, ${comparison.b} is slower`, titleAlign: "left", titleAngle: 0, titleAnchor: "start", titleX: 0, titleY: -14, format: ".3~g", values: ratioTicks(low, high) };
  const common = {
    x: { field: "s", type: "quantitative", ...x },
    y: { field: "ratio", type: "quantitative", scale: y, axis },
    color: { field: "color", type: "nominal", scale: null },
  };
  draw(holder, {
    height: 280,
    description: `ratio of times of run ${comparison.b} to run ${comparison.a} over message size`,
    layer: [
      { data: { values: [{ one: 1 }] }, mark: { type: "rule", strokeWidth: 1.5, color: "var(--axis)", aria: false }, encoding: { y: { field: "one", type: "quantitative" } } },
      { data: { values: barred }, mark: { type: "rule", strokeWidth: 1.5, opacity: 0.45, clip: true, aria: false }, encoding: { ...common, y: { ...common.y, field: "low" }, y2: { field: "high" } } },
      { data: { values: rows }, mark: { type: "line", strokeWidth: 1.5, opacity: 0.8, aria: false }, encoding: { ...common, detail: { field: "curve", type: "nominal" }, strokeDash: { field: "dash", type: "nominal", scale: null } } },
      {
        data: { values: rows },
        params: [{ name: "hover", select: { type: "point", on: "pointerover", clear: "pointerout", nearest: true } }],
        mark: { type: "point", opacity: 1, strokeWidth: 1.75 },
        encoding: {
          ...common,
          fill: { condition: { test: "datum.real", field: "color", type: "nominal", scale: null }, value: "var(--card)" },
          size: { condition: { param: "hover", empty: false, value: 130 }, value: 50 },
          tooltip: { field: "curve", type: "nominal" },
        },
      },
    ],
  });
}

/** Round ratios on both sides of 1. */
function ratioTicks(low, high) {
  const steps = [1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100];
  const below = steps.filter((step) => 1 / step >= low).slice(-3);
  return [...below.map((step) => 1 / step).reverse(), 1, ...steps.filter((step) => step <= high).slice(-4)];
}
