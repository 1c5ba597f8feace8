// The raw table: sorted by any column, narrowed by a word, copied as CSV.

const HEADS = {
  run: "run", op: "op", world_size: "N", size_bytes: "S", dtype: "type", redop: "redop", root: "root", place: "place", time_s: "time",
  time_low_s: "interval", algbw_GBps: "algbw", busbw_GBps: "busbw", wrong: "#wrong", samples: "samples", repeat: "repeat",
  marks: "marks", labels: "settings", source: "where",
};
const UNITS = { time_s: "us", time_low_s: "95 %, us", algbw_GBps: "GB/s", busbw_GBps: "GB/s" };
const TEXTS = new Set(["run", "op", "dtype", "redop", "place", "marks", "labels", "source"]);

/** Rows as objects, with texts in place of their indices. */
function tableRows(data) {
  return data.rows.map((cells) => Object.fromEntries(data.columns.map((name, i) => [name, TEXTS.has(name) ? data.texts[cells[i]] : cells[i]])));
}

function cellText(name, row) {
  const value = row[name];
  if (name === "time_low_s") return value === null ? "" : `${micro(value)} – ${micro(row.time_high_s)}`;
  if (value === null || value === "") return "";
  if (name === "size_bytes") return formatSize(value);
  if (name === "time_s") return micro(value);
  return name === "algbw_GBps" || name === "busbw_GBps" ? value.toFixed(2) : String(value);
}

function micro(seconds) {
  const value = seconds * 1e6;
  return value < 10000 ? value.toFixed(2) : value.toFixed(1);
}

function startTable(data) {
  const rows = tableRows(data);
  const columns = Object.keys(HEADS).filter((name) => worthShowing(name, rows));
  const state = { by: null, down: false, word: "" };
  const body = byId("rows-body");
  const head = byId("rows-head");
  const shown = () => {
    const words = state.word.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter((row) => words.every((word) => columns.some((name) => `${HEADS[name]}=${cellText(name, row)} ${cellText(name, row)}`.toLowerCase().includes(word))));
    return state.by === null ? kept : [...kept].sort((a, b) => (state.down ? -1 : 1) * order(a[state.by], b[state.by]));
  };
  const refresh = () => {
    const kept = shown();
    body.replaceChildren(...kept.map((row) => tableRow(row, columns)));
    byId("rows-count").textContent = kept.length === rows.length ? `${rows.length} rows` : `${kept.length} of ${rows.length} rows`;
    for (const cell of head.children) {
      const sorted = cell.dataset.name === state.by;
      cell.setAttribute("aria-sort", sorted ? (state.down ? "descending" : "ascending") : "none");
    }
  };
  head.replaceChildren(...columns.map((name) => headCell(name, () => {
    [state.by, state.down] = [name, state.by === name && !state.down];
    refresh();
  })));
  byId("rows-filter").addEventListener("input", (event) => { state.word = event.target.value; refresh(); });
  byId("rows-copy").addEventListener("click", () => copyText(toCsv(shown(), data.columns), byId("rows-said")));
  byId("rows-save").addEventListener("click", () => saveText(toCsv(shown(), data.columns), "busbw-rows.csv"));
  refresh();
}

/** Columns that say nothing are left out: all empty, or every row's repeat 0. */
function worthShowing(name, rows) {
  if (["op", "world_size", "size_bytes", "time_s", "algbw_GBps", "busbw_GBps"].includes(name)) return true;
  if (name === "run" || name === "labels") return new Set(rows.map((row) => row[name])).size > 1;
  if (name === "repeat") return rows.some((row) => row.repeat > 0);
  return rows.some((row) => row[name] !== null && row[name] !== "");
}

function headCell(name, sort) {
  const button = element("button", { type: "button" }, HEADS[name]);
  if (UNITS[name]) button.append(element("small", {}, ` ${UNITS[name]}`));
  button.addEventListener("click", sort);
  const cell = element("th", { scope: "col", "aria-sort": "none", class: TEXTS.has(name) ? "text" : "number" }, button);
  cell.dataset.name = name;
  return cell;
}

function tableRow(row, columns) {
  const made = element("tr", row.marks || row.wrong ? { class: row.wrong ? "wrong" : "marked" } : {});
  made.append(...columns.map((name) => element("td", { class: TEXTS.has(name) ? "text" : "number" }, cellText(name, row))));
  return made;
}

function order(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === "string" ? a.localeCompare(b) : a - b;
}

/** The post's six columns first, then all others. */
function toCsv(rows, columns) {
  const first = ["op", "world_size", "size_bytes", "time_s", "algbw_GBps", "busbw_GBps"];
  const others = columns.filter((name) => !first.includes(name));
  const heads = ["op", "world_size", "bytes", "time_ms", "algbw_GBps", "busbw_GBps", ...others];
  const cell = (value) => {
    if (value === null) return "";
    const text = String(value);
    // A spreadsheet runs a cell that begins like a formula; a log's text must not.
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const line = (row) => [row.op, row.world_size, row.size_bytes, row.time_s * 1e3, row.algbw_GBps, row.busbw_GBps, ...others.map((name) => row[name])].map(cell).join(",");
  return [heads.join(","), ...rows.map(line)].join("\n") + "\n";
}

async function copyText(text, said) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  said.textContent = done ? `Copied ${text.split("\n").length - 2} rows.` : "This browser does not allow copying: save the file.";
}

function saveText(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = element("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
