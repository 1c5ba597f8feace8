// The calculator: what one call takes, and what the sync of a model takes, by the fitted cost model.

const SCHEMES = {
  ddp: [["all_reduce", 1]],
  zero: [["reduce_scatter", 1], ["all_gather", 1]],
  fsdp: [["all_gather", 2], ["reduce_scatter", 1]],
};

/** The calls of one scheme for `bytes` of a model in buckets: whole ones, and the rest. */
function bucketCalls(scheme, bytes, bucket) {
  const whole = Math.floor(bytes / bucket);
  const rest = bytes - whole * bucket;
  return SCHEMES[scheme].flatMap(([op, times]) => [
    ...(whole ? [{ op, size: bucket, count: times * whole }] : []),
    ...(rest ? [{ op, size: rest, count: times }] : []),
  ]);
}

/** Sums over calls; the ends of the interval are added as well, as if all calls were off in the same direction. */
function priceCalls(model, n, calls, group = () => null) {
  const sum = { seconds: 0, low: 0, high: 0, latency: 0, bandwidth: 0, calls: 0, extrapolates: [] };
  for (const { op, size, count } of calls) {
    const one = model.estimate(op, n, size, group(op));
    for (const name of ["seconds", "low", "high", "latency", "bandwidth"]) sum[name] += count * one[name];
    sum.calls += count;
    sum.extrapolates.push(...one.extrapolates.map((why) => `${op} of ${formatSize(size)}: ${why}`));
  }
  return sum;
}

/** Wire both calculators. */
function startCalculator(data, models) {
  if (!byId("calculator")) return;
  const pick = () => ({ model: models.get(byId("calc-run").value), run: byId("calc-run").value });
  fillSelect(byId("calc-run"), [...models.keys()].map((run) => [run, runName(data, run)]));
  byId("calc-run-row").hidden = models.size < 2;
  const refresh = () => {
    const { model } = pick();
    fillSelect(byId("calc-op"), model.ops.map((op) => [op, op]));
    fillSettings(model);
    const known = Object.keys(SCHEMES).filter((scheme) => SCHEMES[scheme].every(([op]) => model.ops.includes(op)));
    byId("sync-scheme").querySelectorAll("option").forEach((option) => { option.disabled = !known.includes(option.value); });
    byId("sync").hidden = known.length === 0;
    if (!known.includes(byId("sync-scheme").value)) byId("sync-scheme").value = known[0] ?? "";
  };
  const settings = (model) => fillSelect(byId("calc-settings"), settingChoices(model));
  function fillSettings(model) {
    settings(model);
    byId("calc-settings-row").hidden = byId("calc-settings").options.length < 2;
  }
  const call = () => showCall(pick().model, byId("calc-settings").value);
  const sync = () => showSync(pick().model, byId("calc-settings").value);
  byId("calc-run").addEventListener("change", () => { refresh(); call(); sync(); });
  byId("calc-settings").addEventListener("change", () => { call(); sync(); });
  ["calc-op", "calc-n", "calc-size"].forEach((id) => byId(id).addEventListener("input", call));
  byId("calc-slider").addEventListener("input", () => {
    byId("calc-size").value = formatSize(2 ** Number(byId("calc-slider").value));
    call();
  });
  ["sync-scheme", "sync-n", "sync-parameters", "sync-dtype", "sync-bucket"].forEach((id) => byId(id).addEventListener("input", sync));
  onNewWidth(byId("calc-shares"), () => { call(); sync(); });
  refresh();
  const { model } = pick();
  if (model.ops.includes("all_reduce")) byId("calc-op").value = "all_reduce";
  const largest = Math.max(...model.curves.map((curve) => curve.world_size));
  byId("calc-n").value = byId("sync-n").value = largest;
  call();
  sync();
}

function runName(data, letter) {
  return `${letter}: ${data.runs.find((run) => run.letter === letter).name}`;
}

function fillSelect(select, choices) {
  const before = select.value;
  select.replaceChildren(...choices.map(([value, text]) => element("option", { value }, text)));
  if (choices.some(([value]) => value === before)) select.value = before;
}

/** The settings in which curves of one op and N differ, each combination with a name; the first choice leaves it to the model. */
function settingChoices(model) {
  const groups = model.ops.map((op) => [...model.groups(op).values()].map((byWorld) => [...byWorld.values()][0].settings));
  const names = [...new Set(groups.flat().flatMap((settings) => Object.keys(settings)))].filter((name) =>
    groups.some((own) => new Set(own.map((settings) => settings[name])).size > 1),
  );
  if (names.length === 0) return [["", "all rows"]];
  const words = (settings) => names.filter((name) => name in settings).map((name) => `${name} ${settings[name]}`).join(", ") || "the others";
  const chosen = new Map(groups.flat().map((settings) => [words(settings), names.map((name) => [name, settings[name] ?? null])]));
  return [["", "those with this N, then the most sizes"], ...[...chosen].map(([text, pairs]) => [JSON.stringify(pairs), text])];
}

/** The group of an op's curves that is nearest to the chosen settings, and one sentence for each that it contradicts. */
function groupOf(model, op, choice, n) {
  if (!choice) return [null, []];
  const asked = JSON.parse(choice).filter(([, value]) => value !== null);
  let best = null;
  for (const [key, byWorld] of model.groups(op)) {
    const curves = [...byWorld.values()];
    const { settings } = curves[0];
    const against = asked.filter(([name, value]) => name in settings && settings[name] !== value);
    const alike = asked.filter(([name, value]) => settings[name] === value).length;
    const points = curves.reduce((sum, curve) => sum + curve.points, 0);
    const merit = [-against.length, Number(byWorld.has(n)), alike, points];
    const at = best ? merit.findIndex((value, i) => value !== best.merit[i]) : 0;
    if (!best || (at >= 0 && merit[at] > best.merit[at])) {
      best = { key, merit, reasons: against.map(([name, value]) => `${op}: fitted on ${name} ${settings[name]}, not ${value}`) };
    }
  }
  return best ? [best.key, best.reasons] : [null, []];
}

/** A whole number of ranks, or a sentence. */
function readRanks(id) {
  const n = Number(byId(id).value);
  if (!(Number.isInteger(n) && n >= 1 && n <= 1e6)) throw new Error(`N = “${byId(id).value}”: write a whole number of ranks`);
  return n;
}

function showCall(model, choice) {
  const output = byId("calc-result");
  try {
    const [op, n, size] = [byId("calc-op").value, readRanks("calc-n"), parseSize(byId("calc-size").value)];
    const [group, reasons] = groupOf(model, op, choice, n);
    byId("calc-slider").value = String(Math.log2(size));
    const price = model.estimate(op, n, size, group);
    const factor = model.factor(op, n);
    const rates = n > 1 && price.seconds > 0 ? [["algbw", formatRate(size / price.seconds)], ["busbw", formatRate((size / price.seconds) * factor)]] : [];
    showPrice(output, price, [["S", `${formatSize(size)} (${size.toLocaleString("en")} B)`], ...rates]);
    showWarnings(byId("calc-warnings"), [...reasons, ...price.extrapolates]);
    byId("calc-basis").textContent = basis(model, op, n, group);
    if (n > 1) drawShares(byId("calc-shares"), model, op, n, size, group);
    byId("calc-shares").hidden = n === 1;
  } catch (error) {
    output.replaceChildren(element("p", { class: "refused" }, error.message));
    showWarnings(byId("calc-warnings"), []);
    byId("calc-basis").textContent = "";
  }
}

/** What the answer rests on. */
function basis(model, op, n, group) {
  if (n === 1) return "";
  const curves = [...model.group(op, n, group).values()].sort((a, b) => a.world_size - b.world_size);
  const worlds = curves.map((curve) => curve.world_size).join(", ");
  const nearest = curves.find((curve) => curve.world_size === n);
  const used = nearest ? [nearest] : curves;
  const least = formatSize(Math.min(...used.map((curve) => curve.least)));
  const most = formatSize(Math.max(...used.map((curve) => curve.most)));
  const count = used.reduce((sum, curve) => sum + curve.points, 0);
  return `Rests on ${count} measured sizes of ${op} from ${least} to ${most} at N = ${nearest ? n : worlds}.`;
}

function showPrice(output, price, more) {
  const share = price.seconds > 0 ? price.latency / price.seconds : 0;
  const percent = (part) => `${(100 * part).toFixed(0)} %`;
  const bar = element("div", { class: "bar", "aria-hidden": "true" });
  bar.append(element("span", { class: "latency" }), element("span", { class: "bandwidth" }));
  bar.firstChild.style.width = `${100 * share}%`;
  const line = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
  output.replaceChildren(
    element("p", { class: "answer" }, formatTime(price.seconds)),
    element("p", { class: "quiet" }, `95 %: ${formatTime(price.low)} to ${formatTime(price.high)}`),
    bar,
    element(
      "dl",
      { class: "parts" },
      line(swatched("latency", "latency"), `${formatTime(price.latency)} (${percent(share)})`),
      line(swatched("bandwidth", "bandwidth"), `${formatTime(price.bandwidth)} (${percent(1 - share)})`),
      ...more.map(([name, value]) => line(name, value)),
    ),
  );
  output.dataset.seconds = String(price.seconds);
}

function swatched(kind, text) {
  const both = document.createDocumentFragment();
  both.append(element("span", { class: `dot ${kind}` }), text);
  return both;
}

function showWarnings(list, reasons) {
  const unique = [...new Set(reasons)];
  list.replaceChildren(...unique.slice(0, 4).map((reason) => element("li", {}, `Extrapolated: ${reason}.`)));
  if (unique.length > 4) list.append(element("li", {}, `and ${unique.length - 4} more`));
  list.hidden = unique.length === 0;
}

function drawShares(holder, model, op, n, size, group) {
  const curves = [...model.group(op, n, group).values()];
  const least = Math.min(size, ...curves.map((curve) => curve.least));
  const most = Math.max(size, ...curves.map((curve) => curve.most));
  const parts = sizesBetween(least, most, 60).flatMap((x) => {
    const price = model.estimate(op, n, x, group);
    return [{ x, part: "latency", share: price.latency / price.seconds }, { x, part: "bandwidth", share: price.bandwidth / price.seconds }];
  });
  drawParts(holder, parts, size, least, most, {
    field: "share",
    axis: { format: ".0%", title: `${op}, N = ${n}: share of the time`, values: [0, 0.5, 1] },
    scale: { domain: [0, 1], nice: false },
    x: "message size S",
    height: 120,
  });
}

function drawParts(holder, parts, now, least, most, how) {
  const x = sizeAxis(least, most, holder.clientWidth - 80);
  x.axis.title = how.x;
  const order = { field: "part", type: "nominal", sort: "descending" };
  draw(holder, {
    height: how.height,
    description: `${how.axis.title}, in a latency and a bandwidth part, over ${how.x}`,
    layer: [
      {
        data: { values: parts },
        mark: { type: "area", opacity: 0.85, aria: false },
        encoding: {
          x: { field: "x", type: "quantitative", ...x },
          y: { field: how.field, type: "quantitative", stack: "zero", scale: how.scale, axis: { titleAlign: "left", titleAngle: 0, titleAnchor: "start", titleX: 0, titleY: -12, ...how.axis } },
          color: { field: "part", type: "nominal", legend: null, scale: { domain: ["latency", "bandwidth"], range: ["var(--latency)", "var(--bandwidth)"] } },
          order,
        },
      },
      { data: { values: [{ now }] }, mark: { type: "rule", strokeWidth: 2, color: "var(--ink)", aria: false }, encoding: { x: { field: "now", type: "quantitative" } } },
    ],
  });
}

function showSync(model, choice) {
  if (byId("sync").hidden) return;
  const output = byId("sync-result");
  const reasons = new Set();
  try {
    const [scheme, n] = [byId("sync-scheme").value, readRanks("sync-n")];
    const group = (op) => {
      const [key, against] = groupOf(model, op, choice, n);
      against.forEach((reason) => reasons.add(reason));
      return key;
    };
    const bytes = parseCount(byId("sync-parameters").value) * Number(byId("sync-dtype").value);
    const bucket = Math.min(parseSize(byId("sync-bucket").value), bytes);
    const price = priceCalls(model, n, bucketCalls(scheme, bytes, bucket), group);
    showPrice(output, price, [["calls a step", price.calls.toLocaleString("en")], ["bytes", formatSize(bytes)]]);
    showWarnings(byId("sync-warnings"), [...reasons, ...price.extrapolates]);
    byId("sync-curve").hidden = n === 1;
    if (n > 1) drawBuckets(byId("sync-curve"), model, scheme, n, bytes, bucket, group);
  } catch (error) {
    output.replaceChildren(element("p", { class: "refused" }, error.message));
    showWarnings(byId("sync-warnings"), []);
  }
}

/** The whole sync over the size of a bucket: small buckets pay latency again and again. */
function drawBuckets(holder, model, scheme, n, bytes, bucket, group) {
  const least = Math.min(bucket, Math.max(bytes / 1024, 1));
  const parts = sizesBetween(least, bytes, 60).flatMap((x) => {
    const price = priceCalls(model, n, bucketCalls(scheme, bytes, x), group);
    return [{ x, part: "latency", seconds: price.latency }, { x, part: "bandwidth", seconds: price.bandwidth }];
  });
  drawParts(holder, parts, bucket, least, bytes, {
    field: "seconds",
    axis: { labelExpr: "busbwTime(datum.value)", title: "time of the whole sync", tickCount: 4 },
    scale: { nice: true, zero: true },
    x: "bucket size",
    height: 120,
  });
}
