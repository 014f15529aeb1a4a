// Small charts as SVG. Each has a text for screen readers.
const ns = 'http://www.w3.org/2000/svg';

function svg(tag, attrs, ...children) {
  const e = document.createElementNS(ns, tag);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// line draws values over time. points are [milliseconds, value].
export function line(points, label, format) {
  const w = 320, top = 20, base = 84;
  const e = svg('svg', { viewBox: `0 0 ${w} 100`, class: 'chart', role: 'img', 'aria-label': label });
  if (points.length < 2) {
    e.append(svg('text', { x: 0, y: 55 }, 'collecting values'));
    return e;
  }
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const x0 = xs[0], x1 = xs[xs.length - 1], y1 = Math.max(...ys), y0 = Math.min(0, ...ys);
  const px = (x) => ((x - x0) / (x1 - x0 || 1)) * w;
  const py = (y) => base - ((y - y0) / (y1 - y0 || 1)) * (base - top);
  const d = points.map((p, i) => `${i ? 'L' : 'M'}${px(p[0]).toFixed(1)} ${py(p[1]).toFixed(1)}`).join('');
  const clock = (t) => new Date(t).toTimeString().slice(0, 5);
  e.append(
    svg('path', { d: `M0 ${base}H${w}`, class: 'axis' }),
    svg('path', { d: `${d}L${w} ${base}L0 ${base}Z`, class: 'area' }),
    svg('path', { d, class: 'line' }),
    svg('text', { x: 0, y: 97 }, clock(x0)),
    svg('text', { x: w, y: 97, 'text-anchor': 'end' }, clock(x1)),
    svg('text', { x: w, y: 12, 'text-anchor': 'end' }, `max ${format(y1)}`));
  e.setAttribute('aria-label', `${label}: from ${format(ys[0])} to ${format(ys[ys.length - 1])}, maximum ${format(y1)}`);
  return e;
}

// rates returns the rate of a counter per second as points, over two samples.
export function rates(samples, counter, over = 1) {
  const points = [];
  for (let i = over; i < samples.length; i++) {
    const a = samples[i - over], b = samples[i];
    const s = (Date.parse(b.at) - Date.parse(a.at)) / 1000;
    if (s > 0) points.push([Date.parse(b.at), Math.max(0, (b[counter] - a[counter]) / s)]);
  }
  return points;
}
