// Charts that share a time axis and a cursor.
"use strict";

const timeline = (() => {
  const GUTTER = 68;
  const PLOT_HEIGHT = 104;
  const AXIS_HEIGHT = 26;
  const LABEL_WIDTH = 56;
  const RIGHT_EDGE = 8;
  const COLOURS = 6;
  const BINARY = Array.from({ length: 50 }, (_, at) => 2 ** at);
  const sync = uPlot.sync("time");

  // Colours as the style sheet has them now: the scheme may change, and paper is always light.
  const palette = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    return { of, line: (at) => of(`line-${(at % COLOURS) + 1}`), font: `11px ${of("sans")}` };
  };

  const grid = (colours) => ({ stroke: colours.of("grid"), width: 1 });

  // The axes, cursor and shading that every picture over time has; heat maps take them too.
  const frame = (data, colours, width, height, scales, y, hooks) => ({
    width,
    height: height + AXIS_HEIGHT,
    padding: [6, RIGHT_EDGE, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: sync.key, scales: ["x", null] },
      drag: { x: true, y: false, setScale: true },
      y: false,
      points: { size: 5 },
    },
    select: { show: true },
    scales: { x: { time: false }, ...scales },
    axes: [
      {
        size: AXIS_HEIGHT,
        gap: 5,
        font: colours.font,
        stroke: colours.of("muted"),
        grid: grid(colours),
        ticks: { show: false },
        space: 90,
        splits: (_, __, from, to, step) => onTheClock(data, from, to, step),
        incrs: [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600],
        values: (plot, splits, __, ___, step) => splits.map((s) => clock(data, plot, s, step)),
      },
      {
        size: GUTTER,
        gap: 6,
        font: colours.font,
        stroke: colours.of("muted"),
        grid: grid(colours),
        ticks: { show: false },
        ...y,
      },
    ],
    hooks: {
      ...hooks,
      setCursor: [(plot) => readout(data, plot), ...(hooks.setCursor ?? [])],
    },
  });

  // Ticks at round times of the day, wherever the stall began.
  const onTheClock = (data, from, to, step) => {
    const zero = data.zero_unix_ms / 1000;
    const splits = [];
    for (let at = Math.ceil((zero + from) / step); at * step - zero <= to; at += 1) {
      splits.push(Math.round((at * step - zero) * 1000) / 1000);
    }
    return splits;
  };

  // A name that would not fit at the right edge is left out.
  const clock = (data, plot, s, step) => {
    const { min, max } = plot.scales.x;
    const room = ((max - s) / (max - min)) * (plot.width - GUTTER - RIGHT_EDGE);
    return room < LABEL_WIDTH / 2 - RIGHT_EDGE ? "" : format.clock(data.zero_unix_ms + s * 1000, step < 1);
  };

  const readout = (data, plot) => {
    const place = document.getElementById("readout");
    if (!place || plot.cursor.left == null) return;
    if (plot.cursor.left < 0) {
      place.textContent = "";
      return;
    }
    const s = plot.posToVal(plot.cursor.left, "x");
    const clock = `${format.clock(data.zero_unix_ms + s * 1000, true)} UTC`;
    const away = format.seconds(s < 0 ? s : s - data.stall_s);
    const where =
      s < 0 ? `${away} before the stall`
      : s <= data.stall_s ? `${format.seconds(s)} into the stall`
      : `${away} after the stall`;
    place.textContent = `${clock}, ${where}`;
  };

  const shade = (data, colours) => (plot) => {
    if (!(data.stall_s > 0)) return;
    const { ctx, bbox } = plot;
    const edge = (s) => Math.min(Math.max(plot.valToPos(s, "x", true), bbox.left), bbox.left + bbox.width);
    const [from, to] = [edge(0), edge(data.stall_s)];
    ctx.save();
    ctx.fillStyle = colours.of("stall");
    ctx.fillRect(from, bbox.top, Math.max(to - from, 2 * devicePixelRatio), bbox.height);
    ctx.restore();
  };

  const mark = (chart, colours) => (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colours.of("limit");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.textAlign = "left";
    ctx.textBaseline = "bottom";
    ctx.font = `${11 * devicePixelRatio}px ${colours.of("sans")}`;
    for (const limit of chart.limits) {
      const y = Math.round(plot.valToPos(limit.at, "y", true));
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      const text = `${limit.name}, ${format.unit(chart.unit, limit.at)}`;
      ctx.fillText(text, bbox.left + 6 * devicePixelRatio, y - 2 * devicePixelRatio);
    }
    ctx.restore();
  };

  // Times without a good answer, as bars at the top, one below the other.
  const markOutages = (chart, colours) => (plot) => {
    const { ctx, bbox } = plot;
    const names = [...new Set(chart.outages.map((outage) => outage.name))];
    const height = 14 * devicePixelRatio;
    ctx.save();
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    ctx.font = `${11 * devicePixelRatio}px ${colours.of("sans")}`;
    for (const outage of chart.outages) {
      const edge = (s) => Math.min(Math.max(plot.valToPos(s, "x", true), bbox.left), bbox.left + bbox.width);
      const [from, to] = [edge(outage.from_s), edge(outage.to_s)];
      const width = Math.max(to - from, 3 * devicePixelRatio);
      const top = bbox.top + names.indexOf(outage.name) * (height + 2 * devicePixelRatio);
      ctx.fillStyle = colours.of("limit");
      ctx.fillRect(from, top, width, height);
      const text = `${outage.name}: no good answer for ${format.seconds(outage.to_s - outage.from_s)}`;
      const room = ctx.measureText(text).width + 8 * devicePixelRatio;
      const inside = room <= width;
      ctx.fillStyle = colours.of(inside ? "paper" : "limit");
      const beside = from + width + room <= bbox.left + bbox.width ? from + width : from - room;
      ctx.fillText(text, (inside ? from : beside) + 4 * devicePixelRatio, top + height / 2);
    }
    ctx.restore();
  };

  // Amounts of memory are read by how they change, rates from zero, latencies by powers of ten.
  const range = (chart) => (_, low, high) => {
    const limits = chart.limits.map((limit) => limit.at);
    const top = Math.max(high ?? 0, ...limits);
    if (chart.unit === "bytes") {
      const spare = Math.max((top - low) * 0.1, top * 0.01, 4096);
      return [Math.max(low - spare, 0), top + spare];
    }
    if (!chart.log) return [0, top > 0 ? top * 1.08 : 1];
    const bottom = Math.min(low ?? 1, ...limits);
    const power = (value, round) => 10 ** round(Math.log10(Math.max(value, 0.001)));
    const [from, to] = [power(bottom, Math.floor), power(top * 1.2, Math.ceil)];
    return [from, to > from ? to : from * 10];
  };

  const element = (name, className, text) => {
    const made = document.createElement(name);
    made.className = className;
    if (text != null) made.textContent = text;
    return made;
  };

  const heading = (title, about) => {
    const caption = element("figcaption", "");
    caption.append(element("b", "", title), element("span", "about", about));
    return caption;
  };

  // Names of the lines, each with its value at the cursor, or its worst.
  const legend = (chart, caption) => {
    const places = chart.lines.map((line, at) => {
      const key = element("span", `key line-${(at % COLOURS) + 1}${line.dashed ? " dashed" : ""}`, line.name);
      const value = element("span", "value");
      key.append(value);
      caption.append(key);
      return value;
    });
    const worst = chart.lines.map((line) => {
      const there = line.values.filter((value) => value != null);
      const value = there.reduce((a, b) => ((line.low ? b < a : b > a) ? b : a));
      return `${line.low ? "at least" : "at most"} ${format.unit(chart.unit, value)}`;
    });
    const show = (at) => places.forEach((place, line) => {
      const value = () => format.unit(chart.unit, nearest(chart.lines[line].values, at));
      place.textContent = at == null ? worst[line] : value();
    });
    show(null);
    return show;
  };

  // Values keep their room, so that nothing moves under the mouse.
  const hold = (caption) => caption.querySelectorAll(".value").forEach((value) => {
    value.style.minWidth = `${value.offsetWidth}px`;
  });

  // A column that has a value every tenth row has its last one in between.
  const nearest = (values, at) => {
    while (at > 0 && values[at] == null) at -= 1;
    return values[at];
  };

  // Of a logarithmic axis only the powers of ten have a name and a line.
  const isPower = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;
  const onlyPowers = (value) => (value != null && isPower(value) ? value : null);
  const tick = (chart, value, step) => {
    if (value == null || (chart.log && !isPower(value))) return "";
    return chart.log ? format.unit(chart.unit, value) : format.tick(chart.unit, value, step);
  };

  const draw = (place, data, chart, width) => {
    const colours = palette();
    const figure = element("figure", "chart");
    const caption = heading(chart.title, chart.about);
    const show = legend(chart, caption);
    figure.append(caption);
    place.append(figure);
    hold(caption);
    const lines = chart.lines.map((line, at) => ({
      label: line.name,
      stroke: colours.line(at),
      width: 1.5,
      dash: line.dashed ? [5, 4] : undefined,
      spanGaps: true,
      points: { show: false },
    }));
    const scale = { distr: chart.log ? 3 : 1, range: range(chart) };
    const y = {
      space: 26,
      values: (_, splits, __, ___, step) => splits.map((value) => tick(chart, value, step)),
    };
    if (chart.unit.startsWith("bytes")) y.incrs = BINARY;
    if (chart.log) y.grid = { ...grid(colours), filter: (_, splits) => splits.map(onlyPowers) };
    const hooks = {
      drawClear: [shade(data, colours)],
      draw: [mark(chart, colours), markOutages(chart, colours)],
      setCursor: [(plot) => show(plot.cursor.left < 0 ? null : plot.cursor.idx)],
    };
    const options = frame(data, colours, width, PLOT_HEIGHT, { y: scale }, y, hooks);
    const values = chart.lines.map((line) =>
      chart.log ? line.values.map((value) => (value == null ? null : Math.max(value, 0.001))) : line.values);
    options.series = [{}, ...lines];
    return new uPlot(options, [data.at_s, ...values], figure);
  };

  return {
    draw: (place, data, width) => data.charts.charts.map((chart) => draw(place, data, chart, width)),
    frame,
    heading,
    element,
    palette,
  };
})();
