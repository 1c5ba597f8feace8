// What all figures share: how they look (colours are variables of the style sheet, so that a change of theme or a
// print needs no script), their axes, and labels at line ends.

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const AXIS_WORDS = { busbwSize: (value) => formatSize(Math.round(value)), busbwTime: (value) => shortTime(value) };

/** `10 us`, `1 ms`: ticks stand at round values. */
function shortTime(seconds) {
  return formatTime(seconds).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");
}

function chartConfig() {
  const label = { labelColor: "var(--quiet)", titleColor: "var(--quiet)", labelFontSize: 12, titleFontSize: 12, titleFontWeight: 400 };
  return {
    font: FONT,
    background: null,
    view: { stroke: null },
    axis: { ...label, gridColor: "var(--grid)", domainColor: "var(--axis)", tickColor: "var(--axis)", labelPadding: 6, titlePadding: 10 },
    axisY: { domain: false, ticks: false },
    axisX: { grid: false },
    text: { fill: "var(--ink)", fontSize: 12.5 },
  };
}

/** Draw a Vega-Lite specification into an element; the newest call wins. What is first drawn out of sight waits its turn. */
async function draw(holder, spec) {
  const turn = (holder.turn = (holder.turn || 0) + 1);
  if (!holder.made && holder.getBoundingClientRect().top > 2 * innerHeight) {
    await new Promise((go) => (window.requestIdleCallback ? requestIdleCallback(go, { timeout: 400 }) : setTimeout(go)));
    if (holder.turn !== turn) return;
  }
  const options = { renderer: "svg", actions: false, ast: true, expressionFunctions: AXIS_WORDS, config: chartConfig(), tooltip: showTip };
  const full = { width: "container", autosize: { type: "fit-x", contains: "padding" }, padding: 4, ...spec };
  const made = await vegaEmbed(holder, full, options);
  if (holder.turn === turn) {
    if (holder.made) holder.made.finalize();
    holder.made = made;
    holder.dataset.drawn = String(turn);
  }
}

/** A logarithmic axis of sizes, ticks at powers of 2 as far apart as the width asks for. */
function sizeAxis(least, most, width) {
  const room = Math.max(Math.floor(width / 64), 2);
  const [low, high] = [Math.ceil(Math.log2(least)), Math.floor(Math.log2(most))];
  const step = Math.max(1, Math.ceil((high - low) / room));
  const values = [];
  for (let power = high; power >= low; power -= step) values.unshift(2 ** power);
  const pad = least === most ? 2 : (most / least) ** 0.02;
  return {
    scale: { type: "log", base: 2, domain: [least / pad, most * pad], nice: false },
    axis: { values, labelExpr: "busbwSize(datum.value)", title: "message size S", tickSize: 5, labelOverlap: true },
  };
}

/** The domain and axis of a quantity, logarithmic or linear. */
function valueAxis(values, isLog, isTime, title) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const axis = { title, titleAlign: "left", titleAngle: 0, titleAnchor: "start", titleX: 0, titleY: -14, tickCount: 6 };
  if (isTime) axis.labelExpr = "busbwTime(datum.value)";
  if (!isLog) return { scale: { type: "linear", domain: [0, most * 1.06], nice: false, zero: true }, axis, low: 0, high: most * 1.06 };
  const [low, high] = [least / 1.25, Math.max(most, least * 4) * 1.25];
  const steps = Math.log10(high / low) > 2.5 ? [1] : [1, 2, 5];
  axis.values = [];
  for (let decade = Math.floor(Math.log10(low)); decade <= Math.ceil(Math.log10(high)); decade += 1) {
    axis.values.push(...steps.map((step) => step * 10 ** decade).filter((value) => low <= value && value <= high));
  }
  return { scale: { type: "log", domain: [low, high], nice: false }, axis, low, high };
}

/** Places at least `gap` apart, as near as can be to those wanted (pool adjacent violators, as busbw.plots.layout). */
function spread(wanted, gap, low, high) {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]);
  const pools = [];
  order.forEach((i, rank) => {
    let [mean, size] = [wanted[i] - rank * gap, 1];
    while (pools.length && pools[pools.length - 1][0] > mean) {
      const [other, count] = pools.pop();
      [mean, size] = [(mean * size + other * count) / (size + count), size + count];
    }
    pools.push([mean, size]);
  });
  const top = Math.max(low, high - (wanted.length - 1) * gap);
  const flat = pools.flatMap(([mean, size]) => Array(size).fill(Math.min(Math.max(mean, low), top)));
  const places = [];
  order.forEach((i, rank) => { places[i] = flat[rank] + rank * gap; });
  return places;
}

/** Sizes evenly spaced on a logarithmic axis, whole bytes. */
function sizesBetween(least, most, count) {
  return [...new Set(Array.from({ length: count }, (_, i) => Math.round(least * (most / least) ** (i / (count - 1)))))];
}

/** The numbers of the point under (or nearest to) the pointer. A point's row has `tip`: its name, and pairs of words. */
function showTip(handler, event, item, value) {
  const tip = byId("tip");
  const row = item && item.datum && (item.datum.datum || item.datum);
  if (value === null || value === undefined || !row || !row.tip) {
    tip.hidden = true;
    return;
  }
  const [name, ...pairs] = row.tip;
  const list = element("dl");
  for (const [term, text] of pairs) list.append(element("dt", {}, term), element("dd", {}, text));
  tip.replaceChildren(element("b", {}, name), list);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const room = document.documentElement.clientWidth;
  const left = event.clientX + 18 + width > room ? event.clientX - width - 18 : event.clientX + 18;
  const top = event.clientY + 18 + height > innerHeight ? event.clientY - height - 18 : event.clientY + 18;
  tip.style.left = `${Math.max(Math.min(left, room - width - 6), 6)}px`;
  tip.style.top = `${Math.max(top, 6)}px`;
}
