// Sizes, times and rates as busbw.units prints and parses them, and small helpers for the page.

/** A size in the largest binary unit: `4 KiB`, `1.5 MiB`, `1000 B`. */
function formatSize(bytes) {
  for (const [power, unit] of [[4, "TiB"], [3, "GiB"], [2, "MiB"], [1, "KiB"]]) {
    const value = bytes / 1024 ** power;
    if (value >= 1) return `${Number.isInteger(value) ? value : Number(value.toPrecision(4))} ${unit}`;
  }
  return `${bytes} B`;
}

/** A time to three digits in the unit that suits it: `11.4 us`, `105 ms`. */
function formatTime(seconds) {
  const size = Math.abs(seconds);
  for (const [factor, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "us"]]) {
    if (size >= 0.9995 * factor) return `${threeDigits(seconds / factor)} ${unit}`;
  }
  return seconds === 0 ? "0 s" : `${threeDigits(seconds / 1e-9)} ns`;
}

/** A rate in GB/s (1e9 bytes a second) to three digits. */
function formatRate(bytesPerSecond) {
  return `${threeDigits(bytesPerSecond / 1e9)} GB/s`;
}

function threeDigits(value) {
  const size = Math.abs(value);
  if (size >= 99.95) return value.toFixed(0);
  return size >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

const NUMBER = /^\s*((?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:e[+-]?[0-9]{1,2})?)\s*(.*?)\s*$/i;

/** Bytes of `64KiB`, `1G` (= 1 GiB) or `1GB` (= 1e9); throws a sentence for what is no size. */
function parseSize(text) {
  const match = NUMBER.exec(text);
  const unit = match === null ? null : /^(?:([kmgtp])(i?b)?|b)?$/.exec(match[2].toLowerCase());
  if (!unit) throw new Error(`“${text}” is not a size: write 8, 64KiB, 1G (= 1 GiB) or 1GB (= 1e9 bytes)`);
  const power = unit[1] ? "kmgtp".indexOf(unit[1]) + 1 : 0;
  const bytes = Math.round(Number(match[1]) * (unit[2] === "b" ? 1000 : 1024) ** power);
  if (!(bytes >= 1 && bytes <= Number.MAX_SAFE_INTEGER)) throw new Error(`“${text}”: a size is at least 1 B, and below 8 PiB`);
  return bytes;
}

/** A count such as `124M` or `7B` (powers of 1000). */
function parseCount(text) {
  const match = NUMBER.exec(text);
  const power = match === null ? -1 : ["", "k", "m", "b", "t"].indexOf(match[2].toLowerCase());
  const count = power < 0 ? 0 : Math.round(Number(match[1]) * 1000 ** power);
  if (!(count >= 1 && count <= 1e14)) throw new Error(`“${text}” is not a number of parameters: write 124M or 7B`);
  return count;
}

/** A new element with attributes and children; texts become text, never markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function byId(id) {
  return document.getElementById(id);
}
