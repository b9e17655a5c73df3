// Free blocks per order over time, as a map on the time axis of the charts.
"use strict";

const heat = (() => {
  const ROW = 15;
  const STEPS = 6;
  const { element } = timeline;

  // Step of the scale: none, then a step for every power of ten.
  const step = (free) => (free < 1 ? 0 : Math.min(1 + Math.floor(Math.log10(free)), STEPS - 1));

  const paint = (data, zone, colours) => (plot) => {
    const { ctx } = plot;
    const tones = Array.from({ length: STEPS }, (_, at) => colours.of(`heat-${at}`));
    const at = data.heat_at_s;
    const last = at.length - 1;
    const until = (column) =>
      column < last ? at[column + 1] : at[last] + (last > 0 ? at[last] - at[last - 1] : 1);
    ctx.save();
    ctx.beginPath();
    ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
    ctx.clip();
    zone.orders.forEach((order, row) => {
      const top = Math.round(plot.valToPos(row + 1, "y", true));
      const bottom = Math.round(plot.valToPos(row, "y", true));
      order.free.forEach((free, column) => {
        if (free == null) return;
        const left = Math.floor(plot.valToPos(at[column], "x", true));
        const right = Math.ceil(plot.valToPos(until(column), "x", true));
        ctx.fillStyle = tones[step(free)];
        ctx.fillRect(left, top + 1, Math.max(right - left, 1), bottom - top - 1);
      });
    });
    edges(data, plot, colours);
    ctx.restore();
  };

  // The map covers the shading, so that the stall is two lines here.
  const edges = (data, plot, colours) => {
    if (!(data.stall_s > 0)) return;
    const { ctx, bbox } = plot;
    ctx.strokeStyle = colours.of("ink");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const s of [0, data.stall_s]) {
      const x = Math.round(plot.valToPos(s, "x", true)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
  };

  const legend = () => {
    const place = element("p", "scale");
    place.append("Free blocks: ");
    const names = ["none", "1+", "10+", "100+", "1k+", "10k+"];
    names.forEach((name, at) => place.append(element("span", `swatch heat-${at}`), name));
    return place;
  };

  const label = (order) => order.size || `order ${order.order}`;

  const draw = (place, data, zone, width) => {
    const colours = timeline.palette();
    const figure = element("figure", "chart map");
    const caption = timeline.heading(zone.name, "");
    const value = element("span", "value");
    caption.append(value);
    figure.append(caption);
    place.append(figure);
    const rows = zone.orders.length;
    const show = (plot) => {
      const { left, top, idx } = plot.cursor;
      const isHere = left >= 0 && top >= 0 && plot.over.matches(":hover");
      const order = isHere ? zone.orders[Math.floor(plot.posToVal(top, "y"))] : undefined;
      const free = order?.free[idx];
      value.textContent = order && free != null
        ? `order ${order.order}, ${order.size}: ${free === 0 ? "none" : format.count(free)} free`
        : "";
    };
    const y = {
      grid: { show: false },
      splits: () => zone.orders.map((_, row) => row + 0.5),
      values: () => zone.orders.map(label),
      space: 1,
    };
    const options = timeline.frame(data, colours, width, rows * ROW, { y: { range: [0, rows] } }, y, {
      draw: [paint(data, zone, colours)],
      setCursor: [show],
    });
    options.series = [{}, { paths: () => null, points: { show: false } }];
    options.cursor.points = { show: false };
    return new uPlot(options, [data.heat_at_s, data.heat_at_s.map(() => 0)], figure);
  };

  return {
    draw: (place, data, width) => {
      place.append(legend());
      return data.heat.zones.map((zone) => draw(place, data, zone, width));
    },
  };
})();
