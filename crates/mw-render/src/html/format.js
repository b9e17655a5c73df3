// Numbers and times as people read them.
"use strict";

const format = (() => {
  const short = (value, digits = value !== 0 && Math.abs(value) < 10 ? 1 : 0) =>
    value.toFixed(digits).replace(/\.0+$/, "");
  // `close` is how near another value may be that must read differently.
  const scaled = (value, step, suffixes, close) => {
    let at = 0;
    while (Math.abs(value) >= step && at < suffixes.length - 1) {
      value /= step;
      close /= step;
      at += 1;
    }
    const digits = close < 1 ? Math.min(Math.ceil(-Math.log10(close)), 3) : undefined;
    return short(value, digits) + suffixes[at];
  };
  const milliseconds = (ms) => {
    if (ms < 1) return `${Math.round(ms * 1000)} µs`;
    if (ms < 1000) return `${short(ms)} ms`;
    if (ms < 60000) return `${short(ms / 1000)} s`;
    return `${short(ms / 60000)} min`;
  };
  const bytes = (value, close) => scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"], close);
  const units = {
    milliseconds,
    bytes,
    percent: (value) => `${short(value)}%`,
    bytes_per_second: (value, close) => `${bytes(value, close)}/s`,
    per_second: (value, close) => `${scaled(value, 1000, ["", "k", "M", "G"], close)}/s`,
  };
  const zone = (ms, from, to) => {
    const at = new Date(ms);
    return Number.isNaN(at.getTime()) ? "" : at.toISOString().slice(from, to);
  };
  return {
    short,
    count: (value) => scaled(value, 1000, ["", "k", "M", "G"]),
    tick: (unit, value, step) => units[unit](value, step),
    unit: (unit, value) => (value == null ? "–" : units[unit](value)),
    // Seconds of the hour where ticks are close, tenths where they are closer.
    clock: (ms, tenths) => zone(ms, 11, tenths ? 21 : 19),
    seconds: (s) => milliseconds(Math.abs(s) * 1000),
  };
})();
