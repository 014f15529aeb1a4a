// Elements and formats. All text becomes text nodes, never markup: it may come from web sites.

// h creates an element. Attributes with functions are event listeners; true and false set or omit.
export function h(tag, attrs = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs)) {
    if (typeof value === 'function') e.addEventListener(name, value);
    else if (value === true) e.setAttribute(name, '');
    else if (value !== false && value != null) e.setAttribute(name, value);
  }
  e.append(...children.flat().filter((c) => c != null && c !== false));
  return e;
}

// fetchJSON reads a path of the API. The error has the text of the peer and its status.
export async function fetchJSON(path, options = {}) {
  return answer(await (window.early.take(path) ?? fetch(path, { credentials: 'same-origin', cache: 'no-store', ...options })));
}

// answer returns what a response has.
export async function answer(r) {
  const body = await r.json().catch(() => ({}));
  if (!r.ok) throw Object.assign(new Error(body.error || `HTTP status ${r.status}`), { status: r.status });
  return { body, total: Number(r.headers.get('Total-Count')) };
}

// Intl.NumberFormat does the same, but takes 25 ms and more before the first number.
export const count = (n) => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ',');

export function compact(n) {
  const units = ['', 'K', 'M', 'B', 'T'];
  let i = 0;
  while (Math.abs(n) >= 999.5 && i < units.length - 1) { n /= 1000; i++; }
  return `${Number(n.toPrecision(3))}${units[i]}`;
}

export function bytes(n) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let i = 0;
  while (Math.abs(n) >= 999.5 && i < units.length - 1) { n /= 1000; i++; }
  return `${i === 0 ? Math.round(n) : Number(n.toPrecision(3))} ${units[i]}`;
}

export const ms = (n) => (n > 0 ? `${n < 10 ? n.toFixed(1) : Math.round(n)} ms` : '');
export const percent = (n) => `${Math.round(n * 100)} %`;

export function duration(s) {
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.round(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.round(s / 3600)} h`;
  return `${count(Math.round(s / 86400))} days`;
}

const pad = (n) => String(n).padStart(2, '0');

// time formats a moment in local time; without the day if it is today.
export function time(text) {
  if (!text || text.startsWith('0001-')) return '';
  const d = new Date(text);
  const clock = `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  return d.toDateString() === new Date().toDateString() ? clock
    : `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock}`;
}

// peer shortens a peer ID to its end, which differs between peers. The title has all of it.
export function peer(id, self) {
  if (!id) return '';
  return h('span', { class: 'id', title: id }, id === self ? 'this peer' : `…${id.slice(-8)}`);
}

// limit formats a quantity of a limit.
export function quantity(n, unit) {
  if (unit === 'bytes') return bytes(n);
  if (unit === 'bytes/s') return `${bytes(n)}/s`;
  return `${count(Math.round(n))} ${unit}`.trim();
}
