// Tables that hold only the rows in sight. The peer sorts, searches and cuts.
import { h, fetchJSON, count } from './dom.js';

const rowHeight = 34;
const pageRows = 100;
const maxPages = 30; // kept in memory
const maxHeight = 8e6; // browsers limit the height of an element

// table returns a section with a virtual table of a list of the API. Columns have a key (the name
// of the field to sort by, or ''), a title, a show function, and perhaps number: true.
export function table({ path, label, columns, sort = '', empty = 'There is nothing here.', onRow }) {
  let total = -1;
  let query = '';
  let order = sort;
  let generation = 0;
  let active = -1; // row that the arrow keys have reached
  let pages = new Map(); // number of the page -> rows, or null while it is fetched
  const status = h('p', { class: 'count', role: 'status', 'aria-live': 'polite' });
  const search = h('input', {
    type: 'search', placeholder: 'Search', 'aria-label': `Search in ${label}`, input: later(() => {
      query = search.value.trim();
      restart();
    }),
  });
  const heads = columns.map((c) => h('div', {
    role: 'columnheader', class: c.number ? 'number' : '', 'aria-sort': 'none',
  }, c.key ? h('button', { type: 'button', click: () => sortBy(c.key) }, c.title) : c.title));
  const head = h('div', { role: 'row', class: 'row head', 'aria-rowindex': 1 }, heads);
  const body = h('div', { role: 'rowgroup', class: 'rows' });
  const filler = h('div', { class: 'filler', 'aria-hidden': 'true' });
  const box = h('div', {
    class: 'table', role: 'table', 'aria-label': label, tabindex: 0, scroll: () => draw(), keydown: keys,
  }, h('div', { role: 'rowgroup', class: 'heads' }, head), body, filler);
  // All rows have the same columns: at least so many rem, and a share of the rest of the width.
  const widths = columns.map((c) => c.width || 6);
  box.style.setProperty('--columns', widths.map((w) => `minmax(${w}rem, ${w}fr)`).join(' '));
  box.style.setProperty('--width', `${widths.reduce((a, b) => a + b)}rem`);
  const section = h('section', { class: 'list' },
    h('div', { class: 'tools' }, search, status), box);

  function sortBy(key) {
    order = order === key ? `-${key}` : order === `-${key}` ? '' : key;
    restart();
  }

  function restart() {
    box.scrollTop = 0;
    active = -1;
    refresh();
  }

  // refresh reads the visible rows again.
  function refresh() {
    generation++;
    pages = new Map();
    columns.forEach((c, i) => heads[i].setAttribute('aria-sort',
      order === c.key && c.key ? 'ascending' : order === `-${c.key}` ? 'descending' : 'none'));
    draw();
  }

  async function load(n) {
    const of = generation;
    pages.set(n, null);
    const p = new URLSearchParams({ limit: pageRows, offset: n * pageRows });
    if (query) p.set('q', query);
    if (order) p.set('sort', order);
    try {
      const { body: rows, total: t } = await fetchJSON(`${path}?${p}`);
      if (of !== generation) return;
      total = t;
      pages.set(n, rows);
      while (pages.size > maxPages) pages.delete(pages.keys().next().value);
      status.textContent = total === 0 ? (query ? 'No row matches.' : empty)
        : `${count(total)} row${total === 1 ? '' : 's'}`;
      draw();
    } catch (err) {
      if (of === generation) status.textContent = `The peer did not answer: ${err.message}`;
    }
  }

  // keys moves with the arrows from row to row, where Enter follows the link, and with the others
  // in pages. Tab leaves the table: it would have thousands of stops.
  function keys(e) {
    if (e.target !== box && !body.contains(e.target)) return;
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      e.preventDefault();
      if (total > 0) step1(e.key === 'ArrowDown' ? 1 : -1);
      return;
    }
    const step = { PageDown: box.clientHeight - 2 * rowHeight, PageUp: 2 * rowHeight - box.clientHeight,
      Home: -Infinity, End: Infinity }[e.key];
    if (step === undefined) return;
    e.preventDefault();
    active = -1;
    box.focus();
    box.scrollTop = step === Infinity ? box.scrollHeight : step === -Infinity ? 0 : box.scrollTop + step;
  }

  // step1 makes the next row, or the one before, the active one. The first is one in sight.
  function step1(by) {
    active = Math.max(0, Math.min(total - 1, active < 0 ? first : active + by));
    if (active < first + 1 || active > first + Math.floor(box.clientHeight / rowHeight) - 3) {
      const height = Math.min(total * rowHeight, maxHeight);
      box.scrollTop = Math.max(0, active / total * height - (by > 0 ? box.clientHeight - 4 * rowHeight : rowHeight));
    }
    draw();
    focusRow();
  }

  function focusRow() {
    const e = body.querySelector(`[aria-rowindex="${active + 2}"]`);
    (e?.querySelector('a') ?? e ?? box).focus({ preventScroll: true });
  }

  let first = 0; // row in sight

  function draw() {
    if (total < 0) {
      if (!pages.has(0)) load(0);
      return;
    }
    const height = Math.min(total * rowHeight, maxHeight);
    const sight = Math.ceil(box.clientHeight / rowHeight) + 1;
    const range = Math.max(1, height - box.clientHeight + rowHeight);
    const part = height < maxHeight ? box.scrollTop / rowHeight
      : (box.scrollTop / range) * Math.max(0, total - sight + 2);
    first = Math.max(0, Math.min(Math.floor(part), total - 1));
    const last = Math.min(total, first + sight);
    for (let n = Math.floor(first / pageRows); n <= Math.floor(Math.max(last - 1, 0) / pageRows); n++) {
      if (!pages.has(n)) load(n);
    }
    filler.style.height = `${height}px`;
    body.style.transform = `translateY(${height < maxHeight ? first * rowHeight : box.scrollTop}px)`;
    box.setAttribute('aria-rowcount', total + 1);
    const rows = [];
    for (let i = first; i < last; i++) {
      const v = pages.get(Math.floor(i / pageRows))?.[i % pageRows];
      rows.push(v ? row(v, i) : h('div', { role: 'row', class: 'row', 'aria-rowindex': i + 2 },
        h('div', { role: 'cell' }, '…')));
    }
    const focused = body.contains(document.activeElement);
    body.replaceChildren(...rows);
    if (focused) focusRow();
  }

  function row(v, i) {
    const cells = columns.map((c) => h('div', { role: 'cell', class: c.number ? 'number' : '' },
      c.show(v) ?? ''));
    for (const c of cells) c.title = c.querySelector('[title]')?.title || c.textContent;
    const e = h('div', { role: 'row', class: 'row', 'aria-rowindex': i + 2, tabindex: -1 }, cells);
    for (const a of e.querySelectorAll('a')) a.tabIndex = -1;
    if (onRow) onRow(e, v);
    return e;
  }

  const seen = new ResizeObserver(() => draw());
  seen.observe(box);
  refresh();
  return { section, refresh, box, stop: () => seen.disconnect() };
}

// later calls fn when there was no call for a fifth of a second.
function later(fn) {
  let timer = 0;
  return () => { clearTimeout(timer); timer = setTimeout(fn, 200); };
}
