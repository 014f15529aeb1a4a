// The map of the coordinate space: two axes of it, in milliseconds. Distances on it predict times. With a
// geolocation database, it also shows the Earth, in degrees.
import { h, fetchJSON, ms, percent, time } from './dom.js';
import { download } from './charts.js';

const maxSites = 20000;
const maxErrors = 1500; // marks in sight up to which the errors of servers are drawn
const readEvery = 10000; // ms
const keepEvery = 60000; // ms between earlier positions
const maxFrames = 60;

// map returns a view with the peers, the servers and this peer.
export async function map(state) {
  const frames = []; // { at, peers: coordinates by peer ID, self }
  let points = [], peers = [], sites = [], earth = false, past = null; // past: the frame that is shown; null: the last

  async function read() {
    const [p, s] = await Promise.all([fetchJSON('/v1/peers?limit=10000'), fetchJSON(`/v1/servers?limit=${maxSites}`)]);
    [peers, sites] = [p.body.filter((x) => x.coordinate), s.body];
    if (frames.length > 1 && frames.at(-1).at - frames.at(-2).at < keepEvery && frames.at(-1) !== past) frames.pop();
    frames.push({ at: Date.now(), peers: new Map(peers.map((x) => [x.peer_id, x.coordinate])), self: state.status.coordinate });
    if (frames.length > maxFrames) frames.shift();
  }

  // place computes the marks of the frame that is shown.
  function place() {
    const then = past ?? frames.at(-1);
    const at = (x, c) => (earth ? x.earth && { at: [x.earth.lon, -x.earth.lat], error: 0 } : c && { at: [c.vec[0] || 0, c.vec[1] || 0], error: c.error });
    const mark = (x, c, kind, name, text) => { const p = at(x, c); return p ? [{ kind, name, text, ...p }] : []; };
    points = [
      ...sites.flatMap((s) => mark(s, s.at, s.own ? 'own' : 'server', s.subnet, `subnet ${s.subnet}, ${s.own ? 'owned by this peer' : `owner ${s.owner}`}`)),
      ...peers.flatMap((p) => mark(p, then.peers.get(p.peer_id), 'peer', p.peer_id, `peer ${p.peer_id}, ${ms(p.distance_ms)} away, error ${percent(p.coordinate.error)}`)),
      ...mark({}, then.self, 'self', state.status.peer_id, `this peer, error ${percent(then.self.error)}`),
    ];
    if (found) found = points.find((p) => p.name === found.name) || null;
    hovered = null;
  }

  const show = { server: true, own: true, peer: true, self: true };
  const canvas = h('canvas', { tabindex: 0, role: 'img', 'aria-describedby': 'map-help' });
  const told = h('p', { class: 'told', role: 'status', 'aria-live': 'polite' }, 'Point at a mark to see what it is.');
  const search = h('input', { type: 'search', placeholder: 'Find a peer or subnet', 'aria-label': 'Find on the map', input: find });
  const view = { x: 0, y: 0, scale: 1 };
  let found = null, hovered = null, grid = null, frame = 0, moving = false, rest = 0; // grid is built when it is needed
  await read();
  place();
  canvas.setAttribute('aria-label', `Map of ${peers.length} peers and ${sites.length} subnets`);
  const when = h('output', {}, 'now');
  const slider = h('input', { type: 'range', min: 0, max: 0, value: 0, 'aria-label': 'Positions at an earlier time', input: () => {
    const i = Number(slider.value);
    past = i < frames.length - 1 ? frames[i] : null;
    when.textContent = past ? time(past.at) : 'now';
    place();
    changed();
  } });
  const reading = setInterval(async () => {
    if (document.hidden) return;
    await read().catch(() => {}); // the mark at the top says that the peer does not answer
    slider.max = frames.length - 1;
    slider.value = past ? Math.max(0, frames.indexOf(past)) : slider.max;
    if (!past && !dragged) { place(); changed(); }
  }, readEvery);
  const kind = h('select', { 'aria-label': 'What distances mean', change: () => {
    earth = kind.value === 'earth';
    place();
    fit();
    changed();
  } }, h('option', { value: 'time' }, 'round-trip times'), h('option', { value: 'earth' }, 'the Earth'));
  const boxes = [['peer', 'peers'], ['own', 'servers of this peer'], ['server', 'servers of other peers']]
    .map(([kind, name]) => h('label', {}, h('input', { type: 'checkbox', checked: true, change: (e) => {
      show[kind] = e.target.checked; changed(); } }), h('span', { class: `mark ${kind}` }), name));
  const button = (label, text, click) => h('button', { type: 'button', 'aria-label': label, title: label, click }, text);
  const section = h('section', { class: 'map' },
    h('div', { class: 'tools' }, search, state.status.geo_db ? kind : '', ...boxes,
      button('Zoom in', '+', () => zoom(1.5)), button('Zoom out', '−', () => zoom(1 / 1.5)),
      button('Show all', 'All', () => { fit(); changed(); }),
      button('Save as SVG', 'SVG', () => save(new Blob([svg()], { type: 'image/svg+xml' }), 'SVG')),
      button('Save as PNG', 'PNG', () => canvas.toBlob((b) => save(b, 'PNG')))),
    canvas, h('div', { class: 'tools' }, h('label', {}, 'Positions of', slider), when), told,
    h('p', { id: 'map-help', class: 'hint' }, 'The distance of two marks is the predicted round-trip time, '
      + 'without the parts that the heights add. A disc around a mark is its error; those of servers appear when few are in sight. '
      + 'Drag or use the arrow keys to move, the wheel or + and − to zoom. While this page is open, the positions are read every ten seconds, '
      + 'and those of the last hour can be seen again.'));

  const px = (p) => [(p.at[0] - view.x) * view.scale + canvas.clientWidth / 2,
    (p.at[1] - view.y) * view.scale + canvas.clientHeight / 2];

  function fit() {
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const { at: [x, y] } of points) {
      x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y);
    }
    view.x = (x0 + x1) / 2;
    view.y = (y0 + y1) / 2;
    view.scale = Math.min(canvas.clientWidth / (x1 - x0 || 1), canvas.clientHeight / (y1 - y0 || 1)) * 0.92;
  }

  // index sorts the marks into cells of 16 pixels, for hovering.
  function index() {
    grid = new Map();
    for (const p of points) {
      if (!show[p.kind]) continue;
      const [x, y] = px(p);
      const key = `${Math.floor(x / 16)} ${Math.floor(y / 16)}`;
      if (grid.has(key)) grid.get(key).push(p); else grid.set(key, [p]);
    }
  }

  const radius = { server: 1.6, own: 2.4, peer: 3.4, self: 6 };

  function colors() {
    const css = getComputedStyle(document.documentElement);
    const get = (n) => css.getPropertyValue(n).trim();
    return { server: get('--server'), own: get('--own'), peer: get('--peer'), self: get('--self'),
      back: get('--card'), line: get('--line'), text: get('--soft'), ink: get('--ink') };
  }

  function draw() {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(paint);
  }

  function paint() {
    const ratio = devicePixelRatio || 1, w = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== w * ratio || canvas.height !== height * ratio) {
      canvas.width = w * ratio;
      canvas.height = height * ratio;
    }
    const g = canvas.getContext('2d'), c = colors();
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = c.back;
    g.fillRect(0, 0, w, height);
    if (earth) grid30(g, c, w, height);
    ruler(g, c, w, height);
    const seen = [];
    for (const p of points) {
      if (!show[p.kind]) continue;
      const x = (p.at[0] - view.x) * view.scale + w / 2, y = (p.at[1] - view.y) * view.scale + height / 2;
      if (x > -50 && y > -50 && x < w + 50 && y < height + 50) seen.push([p, x, y]);
    }
    let kind = '';
    for (const [p, x, y] of seen) {
      if (p.kind !== kind) g.fillStyle = c[kind = p.kind]; // points are in the order of their kinds
      // The error, as a share of a typical distance of 20 ms; of servers only if they are few, and of peers
      // not while the map moves.
      if (p.kind === 'self' || seen.length < maxErrors || p.kind === 'peer' && !moving) {
        g.globalAlpha = p.kind === 'self' ? 0.25 : 0.07;
        disc(g, x, y, radius[p.kind] + p.error * 20 * view.scale);
      }
      g.globalAlpha = p.kind === 'server' ? 0.55 : 0.9;
      if (p.kind === 'peer' || p.kind === 'self') disc(g, x, y, radius[p.kind]);
      else square(g, x, y, radius[p.kind], ratio);
    }
    g.globalAlpha = 1;
    for (const p of [found, hovered]) {
      if (!p) continue;
      const [x, y] = px(p);
      g.strokeStyle = c.ink;
      g.lineWidth = 2;
      g.beginPath();
      g.arc(x, y, 11, 0, 7);
      g.stroke();
    }
  }

  function disc(g, x, y, r) {
    g.beginPath();
    g.arc(x, y, r, 0, 7);
    g.fill();
  }

  // square draws a mark of whole pixels. Thousands of discs, or of squares with soft edges, are
  // slow without a graphics card.
  function square(g, x, y, r, ratio) {
    const at = (v) => Math.round((v - r) * ratio) / ratio;
    const side = Math.max(1, Math.round(2 * r * ratio)) / ratio;
    g.fillRect(at(x), at(y), side, side);
  }

  // ruler draws a scale of a round number of milliseconds.
  function rulerLength(w) {
    const least = w / 8 / view.scale, unit = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((k) => k * unit).find((k) => k >= least);
  }

  function ruler(g, c, w, height) {
    const n = rulerLength(w), length = n * view.scale;
    g.strokeStyle = g.fillStyle = c.text;
    g.lineWidth = 1;
    g.strokeRect(14, height - 18, length, 0);
    g.font = '12px system-ui, sans-serif';
    g.fillText(unit(n), 14, height - 24);
  }

  const unit = (n) => (earth ? `${n}°` : `${n} ms`);

  // lines30 returns the meridians and parallels of every 30 degrees.
  function lines30(w, height) {
    const x = (lon) => (lon - view.x) * view.scale + w / 2, y = (lat) => (lat - view.y) * view.scale + height / 2;
    const all = [];
    for (let lon = -180; lon <= 180; lon += 30) all.push([x(lon), y(-90), x(lon), y(90)]);
    for (let lat = -90; lat <= 90; lat += 30) all.push([x(-180), y(lat), x(180), y(lat)]);
    return all;
  }

  function grid30(g, c, w, height) {
    g.strokeStyle = c.line;
    g.lineWidth = 1;
    g.beginPath();
    for (const [x0, y0, x1, y1] of lines30(w, height)) { g.moveTo(x0, y0); g.lineTo(x1, y1); }
    g.stroke();
  }

  function svg() {
    const c = colors(), w = canvas.clientWidth, height = canvas.clientHeight;
    const esc = (s) => s.replace(/[&<>"]/g, (x) => `&#${x.charCodeAt(0)};`);
    const n = rulerLength(w);
    const marks = points.filter((p) => show[p.kind]).map((p) => {
      const [x, y] = px(p);
      return `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="${radius[p.kind]}" fill="${c[p.kind]}"><title>${esc(p.text)}</title></circle>`;
    });
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${height}"><rect width="100%" height="100%" fill="${c.back}"/>`
      + (earth ? `<path stroke="${c.line}" d="${lines30(w, height).map((l) => `M${l.slice(0, 2)}L${l.slice(2)}`).join('')}"/>` : '')
      + `<path d="M14 ${height - 18}h${n * view.scale}" stroke="${c.text}"/><text x="14" y="${height - 24}" fill="${c.text}" font-size="12" font-family="sans-serif">${unit(n)}</text>${marks.join('\n')}</svg>\n`;
  }

  function save(blob, kind) { told.textContent = `Saved ${download(blob, 'map', kind)}.`; }

  function zoom(k, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const old = view.scale;
    view.scale = Math.min(Math.max(old * k, 0.01), 1e5);
    view.x += (x - canvas.clientWidth / 2) * (1 / old - 1 / view.scale);
    view.y += (y - canvas.clientHeight / 2) * (1 / old - 1 / view.scale);
    move();
  }

  function changed() {
    grid = null;
    draw();
  }

  // move draws the map while it moves, and once more when it rests.
  function move() {
    grid = null;
    moving = true;
    clearTimeout(rest);
    rest = setTimeout(() => { moving = false; draw(); }, 150);
    draw();
  }

  function find() {
    const q = search.value.trim().toLowerCase();
    found = q ? points.findLast((p) => p.name.toLowerCase().includes(q)) || null : null;
    if (found) [view.x, view.y] = found.at;
    told.textContent = !q ? '' : found ? `Found ${found.text}.` : 'Nothing on the map has this name.';
    changed();
  }

  function nearest(x, y) {
    let best = null, least = 144;
    if (!grid) index();
    for (let dx = -1; dx <= 1; dx++) {
      for (let dy = -1; dy <= 1; dy++) {
        for (const p of grid.get(`${Math.floor(x / 16) + dx} ${Math.floor(y / 16) + dy}`) || []) {
          const [a, b] = px(p), d = (a - x) ** 2 + (b - y) ** 2;
          if (d < least + (p.kind === 'server' ? 0 : 20)) { best = p; least = d; }
        }
      }
    }
    return best;
  }

  let dragged = false;
  canvas.addEventListener('pointerdown', (e) => { dragged = true; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener('pointerup', () => { dragged = false; grid = null; });
  canvas.addEventListener('pointermove', (e) => {
    if (dragged) {
      view.x -= e.movementX / view.scale;
      view.y -= e.movementY / view.scale;
      move();
      return;
    }
    const p = nearest(e.offsetX, e.offsetY);
    if (p === hovered) return;
    hovered = p;
    if (p) told.textContent = p.text;
    draw();
  });
  canvas.addEventListener('wheel', (e) => {
    e.preventDefault();
    zoom(Math.exp(-e.deltaY / 400), e.offsetX, e.offsetY);
  }, { passive: false });
  canvas.addEventListener('keydown', (e) => {
    const step = 40 / view.scale;
    const by = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[e.key];
    if (by) { view.x += by[0]; view.y += by[1]; move(); } else if (e.key === '+') zoom(1.5);
    else if (e.key === '-') zoom(1 / 1.5); else return;
    e.preventDefault();
  });
  let fitted = false;
  const sizes = new ResizeObserver(() => { if (!fitted) { fit(); fitted = true; } changed(); });
  sizes.observe(canvas);
  const dark = matchMedia('(prefers-color-scheme: dark)');
  dark.addEventListener('change', draw);
  return { section, stop: () => { clearInterval(reading); clearTimeout(rest); sizes.disconnect(); dark.removeEventListener('change', draw); } };
}
