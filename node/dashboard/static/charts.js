// Small charts as SVG. Each has a text for screen readers, and can be saved.
import { h } from './dom.js';

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

// bars draws values below each other. rows are [name, value, text].
export function bars(rows, label) {
  const w = 640, most = Math.max(...rows.map((r) => r[1])) || 1;
  const e = svg('svg', { viewBox: `0 0 ${w} ${rows.length * 44}`, class: 'chart wide', role: 'img',
    'aria-label': `${label}: ${rows.map((r) => `${r[0]} ${r[2]}`).join('; ')}` });
  rows.forEach(([name, v, text], i) => e.append(
    svg('text', { x: 0, y: i * 44 + 14 }, name),
    svg('rect', { x: 0, y: i * 44 + 20, width: ((w - 90) * v / most).toFixed(1), height: 14, class: 'fill' }),
    svg('text', { x: ((w - 90) * v / most + 6).toFixed(1), y: i * 44 + 31 }, text)));
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

// saved returns a picture with buttons that save it. The file has the colours that the picture has now.
export function saved(picture, name) {
  const button = (kind) => h('button', { type: 'button', 'aria-label': `Save ${name} as ${kind}`, title: `Save as ${kind}`, click: () => save(picture, name, kind) }, kind);
  return h('figure', {}, picture, h('figcaption', {}, button('SVG'), button('PNG')));
}

async function save(picture, name, kind) {
  const copy = picture.cloneNode(true);
  const box = picture.getBoundingClientRect();
  copy.setAttribute('xmlns', ns);
  copy.setAttribute('width', box.width);
  copy.setAttribute('height', box.height);
  const from = picture.querySelectorAll('*'), to = copy.querySelectorAll('*');
  from.forEach((e, i) => { // the style sheet is not in the file
    const css = getComputedStyle(e);
    for (const p of ['fill', 'stroke', 'stroke-width', 'opacity', 'font-size', 'font-family']) to[i].style.setProperty(p, css.getPropertyValue(p));
  });
  const svg = new Blob([new XMLSerializer().serializeToString(copy)], { type: 'image/svg+xml' });
  download(kind === 'SVG' ? svg : await drawn(svg, box), name, kind);
}

// drawn returns an SVG file as PNG, in twice its size, on the background of the page.
async function drawn(svg, { width, height }) {
  const url = URL.createObjectURL(svg), image = new Image();
  image.src = url;
  await image.decode();
  const canvas = h('canvas', { width: 2 * width, height: 2 * height }), g = canvas.getContext('2d');
  g.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--card').trim();
  g.fillRect(0, 0, canvas.width, canvas.height);
  g.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  return new Promise((done) => canvas.toBlob(done, 'image/png'));
}

// download saves a file, and returns its name.
export function download(blob, name, kind) {
  const file = `peerd-${name.toLowerCase().replace(/[^a-z0-9]+/g, '-')}.${kind.toLowerCase()}`;
  const url = URL.createObjectURL(blob);
  h('a', { href: url, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
  document.getElementById('said').textContent = `Saved ${file} (${blob.size} bytes).`;
  return file;
}
