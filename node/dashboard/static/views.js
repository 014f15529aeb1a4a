// The views. Each has a name, a title, and open, which returns its sections and perhaps stop.
import { h, fetchJSON, bytes, compact, count, duration, ms, percent, peer, quantity, time } from './dom.js';
import { table } from './table.js';
import { bars, line, rates, saved } from './charts.js';

const card = (title, ...children) => h('section', { class: 'card' }, h('h3', {}, title), ...children);
const value = (name, ...v) => h('div', { class: 'value' }, h('dt', {}, name), h('dd', {}, ...v));
const verdicts = { right: ['good', 'right'], wrong: ['warn', 'another peer is faster'], unknown: ['', 'not known yet'] };
const verdict = (v) => h('span', { class: `badge ${verdicts[v][0]}` }, verdicts[v][1]);
const ask = (text, shown = text) => h('a', { href: `#ask/${encodeURIComponent(text)}` }, shown);

// rate returns how fast a counter grows, by the last two states.
function rate(state, counter) {
  const [a, b] = [state.before, state.status];
  if (!a || b.received <= a.received) return null;
  return Math.max(0, (counter(b) - counter(a)) * 1000 / (b.received - a.received));
}

// healthKind says whether a state of a peer is good, bad, or needs attention.
export const healthKind = (state) => ({ offline: 'bad', 'held back': 'bad', crawling: 'good', collecting: 'good', idle: 'good', done: 'good' })[state] ?? 'warn';

// warnings returns what an operator should know, with advice.
function warnings(status, limits, disk) {
  const { state, why, do: advice } = status.health;
  const all = limits.filter((l) => l.active).map((l) => [l.blocked ? 'bad' : 'warn', l.name, l.advice]);
  if (advice && !limits.some((l) => l.blocked && l.active)) {
    all.unshift([healthKind(state), state, `${why ? `${why}; ` : ''}${advice}`]);
  }
  for (const text of status.blocked) {
    if (!limits.some((l) => l.blocked && l.active)) all.push(['bad', 'nothing is fetched', text]);
  }
  for (const b of status.bootstrap) {
    if (!b.connected && status.peers_connected === 0) all.push(['warn', 'bootstrap address', `${b.addr} is not connected: ${b.last_error || 'not tried yet'}`]);
  }
  const left = disk.full_at && (Date.parse(disk.full_at) - Date.now()) / 1000;
  if (left && left < 14 * 86400) all.push(['warn', 'disk', `full in about ${duration(left)}; free space, or move the archive away`]);
  return all;
}

async function overview(state) {
  const [limits, disk, hist] = await Promise.all([fetchJSON('/v1/limits'), fetchJSON('/v1/disk'), fetchJSON('/v1/history'), state.ready]);
  const history = hist.body;
  const cards = h('div', { class: 'cards' });
  const advice = h('div', { id: 'warnings' });
  function show() {
    const s = state.status, n = (f) => { const r = rate(state, f); return r === null ? '…' : r.toFixed(r < 10 ? 1 : 0); };
    const all = warnings(s, limits.body, disk.body);
    advice.replaceChildren(...all.map(([kind, name, text]) =>
      h('p', { class: `note ${kind}` }, h('strong', {}, `${name}: `), text)));
    if (!all.length) advice.append(h('p', { class: 'note good' }, 'Nothing needs your attention.'));
    cards.replaceChildren(
      card('Crawling', h('dl', {},
        value('pages fetched', compact(s.pages_fetched)), value('pages a second', n((x) => x.fetches)),
        value('received', bytes(s.bytes_fetched)), value('in flight', count(s.frontier.in_flight)),
        value('URLs queued', compact(s.frontier.pending)), value('URLs seen', compact(s.urls_seen)),
        value('given up', compact(s.failed)), value('denied by robots.txt', compact(s.robots_denied)))),
      card('This peer', h('dl', {},
        value('subnets owned', h('a', { href: '#subnets' }, count(s.subnets_owned))), value('hosts', count(s.hosts)),
        value('other peers', h('a', { href: '#peers' }, `${count(s.directory)} known, ${count(s.peers_connected)} connected`)),
        value('coordinate error', percent(s.coordinate.error)), value('up', duration(s.uptime_s)),
        value('network', s.network), value('peer ID', peer(s.peer_id)))),
      card('Work for other peers', h('dl', {},
        value('pages fetched for them', compact(s.estimations.served)), value('URLs sent to owners', compact(s.batches.urls_sent)),
        value('URLs received', compact(s.batches.urls_received)),
        value('subnets handed over', `${count(s.handovers.out)} (${count(s.handovers.moves)} to a nearer peer)`),
        value('subnets received', count(s.handovers.in)), value('taken over from failed peers', count(s.handovers.takeovers)),
        value('control traffic', `${bytes(s.control_bytes.sent)} sent, ${bytes(s.control_bytes.received)} received`))),
      card('Disk', h('dl', { id: 'disk' },
        value('free', bytes(disk.body.free)), value('kept free', bytes(disk.body.min_free)),
        value('use grows', disk.body.observed_s < 600 ? 'measuring; known after ten minutes' : `${bytes(disk.body.per_day)} a day`),
        value('full', disk.body.full_at ? `${disk.body.full_at.slice(0, 10)}, in about ${duration((Date.parse(disk.body.full_at) - Date.now()) / 1000)}`
          : disk.body.observed_s < 600 ? 'not known yet' : 'not within ten years'))));
  }
  state.listeners.add((what) => what === 'status' && show());
  show();
  const perSecond = (v) => `${v.toFixed(1)}/s`;
  const chart = (title, points, label, format) => card(title, saved(line(points, label, format), label));
  const charts = h('div', { class: 'cards' },
    chart('Pages a second', rates(history, 'fetches'), 'Pages a second', perSecond),
    chart('Received', rates(history, 'bytes'), 'Bytes a second', (v) => `${bytes(v)}/s`),
    chart('For other peers', rates(history, 'served'), 'Pages a second for other peers', perSecond),
    chart('Free disk space', history.map((x) => [Date.parse(x.at), x.free]), 'Free disk space', bytes));
  return { sections: [advice, cards, charts] };
}

// list returns a view that is a table.
const list = (name, title, intro, options) => ({ name, title, open: async (state) => {
  const t = table({ path: `/v1/${name}`, label: title, ...options(state) });
  return { sections: [h('p', { class: 'hint' }, intro), t.section], stop: t.stop };
} });

const answer = async (_, of) => {
  if (!of) return { sections: [h('p', { class: 'hint' }, 'Enter a host, an address or a subnet at the top of the page.')] };
  const { body: p } = await fetchJSON(`/v1/placement?of=${encodeURIComponent(of)}`).catch((err) => {
    if (err.status !== 400) throw err;
    return { body: { error: err.message } };
  });
  if (p.error) return { sections: [h('p', { class: 'note warn' }, p.error)] };
  const found = { queue: 'this peer crawls the host', outbox: 'this peer sends its URLs to the owner',
    lookup: 'by its first address', given: 'as given' }[p.found];
  const max = Math.max(...p.candidates.map((c) => c.predicted_ms), 1);
  return { sections: [
    card(`${p.of}`, h('p', { id: 'why' }, p.why), h('dl', {},
      value('subnet', `${p.subnet} (${found})`), value('owner', p.own ? 'this peer' : peer(p.owner) || 'none known'),
      value('epoch', p.epoch ? count(p.epoch) : 'unknown'), value('right?', verdict(p.verdict)))),
    p.candidates.length ? card('Predicted time of a typical page', h('table', { class: 'bars' },
      h('thead', {}, h('tr', {}, ...['peer', 'time', 'distance'].map((t) => h('th', { scope: 'col' }, t)))),
      h('tbody', {}, p.candidates.map((c) => {
        const bar = h('span', { class: c.owner ? 'bar owner' : 'bar' });
        bar.style.width = `${Math.max(2, 100 * c.predicted_ms / max)}%`;
        return h('tr', {}, h('th', { scope: 'row' }, c.self ? 'this peer' : peer(c.peer_id), c.owner ? ' (owner)' : ''),
          h('td', {}, h('span', { class: 'amount' }, ms(c.predicted_ms)), bar), h('td', {}, ms(c.distance_ms)));
      })))) : null,
    card('What happened to this subnet here', p.moves.length ? h('ul', {}, p.moves.map((m) =>
      h('li', {}, `${time(m.at)} ${m.kind}: ${m.why}`, m.peer ? [' (', peer(m.peer), ')'] : ''))) : h('p', {}, 'Nothing that this peer remembers.')),
  ] };
};

// gain shows the times of this peer's subnets against those of other ways to choose owners.
async function gain() {
  const { body: g } = await fetchJSON('/v1/gain');
  if (!g.pages) return { sections: [h('p', { class: 'hint' }, 'Nothing can be compared yet: no page was fetched from a located subnet of this peer since the start.')] };
  const faster = 1 - g.here_ms / g.random_ms, rest = g.here_ms / g.best_ms - 1;
  const rows = [['This peer, measured', g.measured_ms], ['This peer, predicted', g.here_ms],
    ['A random owner, predicted', g.random_ms], ['The fastest known peer (oracle), predicted', g.best_ms]];
  return { sections: [
    h('p', { id: 'gain' }, `The strategy “${g.strategy}” makes pages take ${percent(faster)} less time than owners chosen at random would. `
      + `The fastest known peers would need ${percent(1 - g.best_ms / g.here_ms)} less than now${rest < 0.25 ? ', which is within the error of the predictions' : ''}.`),
    card('Time of a page', saved(bars(rows.map(([name, v]) => [name, v, ms(v)]), 'Time of a page'), 'Time of a page')),
    h('p', { class: 'hint' }, `Averages over ${count(g.pages)} pages of ${count(g.subnets)} subnets since the start. Predictions are for a page of 10 kB over an open connection, `
      + 'by what is known now; what was measured depends on the sizes of the pages. A random owner is the mean of all known peers.')] };
}

// share formats how much of a limit is used.
const share = (l) => (l.unit.startsWith('bytes') ? `${quantity(l.used, l.unit)} of ${quantity(l.max, l.unit)}`
  : `${count(Math.round(l.used))} of ${quantity(l.max, l.unit)}`);

async function settings() {
  const [limits, all] = await Promise.all([fetchJSON('/v1/limits'), fetchJSON('/v1/settings?limit=1000')]);
  const rows = limits.body.map((l) => h('li', { class: l.active ? (l.blocked ? 'bad' : 'warn') : '' },
    h('div', { class: 'line' }, h('strong', {}, l.name), l.setting ? h('code', {}, l.setting) : '',
      h('span', { class: 'state' }, l.active ? (l.blocked ? 'stops the peer' : 'limits now') : l.max || !l.setting ? 'in order' : 'no limit')),
    l.max ? h('meter', { 'aria-label': l.name, min: 0, max: 1, value: Math.min(1, l.least ? l.max / Math.max(l.used, 1) : l.used / l.max) }) : '',
    l.unit ? h('p', {}, l.least ? `${quantity(l.used, l.unit)} free, at least ${quantity(l.max, l.unit)}`
      : l.max ? share(l) : quantity(l.used, l.unit)) : '',
    l.advice ? h('p', { class: 'advice' }, l.advice) : ''));
  return { sections: [
    h('section', { class: 'card' }, h('h3', {}, 'Limits'), h('ul', { class: 'limits', id: 'limits' }, rows)),
    h('section', { class: 'card' }, h('h3', {}, 'Settings in effect'),
      h('p', { class: 'hint' }, 'From config.toml and the command line. “peerd reload” changes some limits, a restart everything. Settings in bold are not the default.'),
      h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Settings' }, h('table', { class: 'plain' },
        h('thead', {}, h('tr', {}, ['setting', 'value', 'default'].map((t) => h('th', { scope: 'col' }, t)))),
        h('tbody', {}, all.body.map((s) => h('tr', { class: s.changed ? 'changed' : '' },
          h('th', { scope: 'row' }, h('code', {}, s.key)), h('td', {}, s.value), h('td', {}, s.default))))))),
  ] };
}

const event = (e) => h('li', { class: e.level.toLowerCase() }, h('time', { datetime: e.at }, time(e.at)),
  h('span', { class: `badge ${e.kind}` }, e.kind), ' ', e.subnet ? [ask(e.subnet), ' '] : '',
  h('span', {}, e.text), e.kind === 'peer' && e.peer ? [' ', peer(e.peer)] : '');

async function events(state) {
  const only = h('select', { 'aria-label': 'Kind of events', change: show },
    ['all', 'gained', 'lost', 'leaving', 'peer', 'other'].map((k) => h('option', { value: k }, k)));
  const items = h('ul', { class: 'events', id: 'events' });
  const { body } = await fetchJSON('/v1/journal?limit=500');
  const known = new Map(body.map((e) => [e.seq, e]));
  function show() {
    for (const e of state.recent) known.set(e.seq ?? `missed ${e.at}`, e);
    const all = [...known.values()].filter((e) => only.value === 'all' || e.kind === only.value)
      .sort((a, b) => Date.parse(b.at) - Date.parse(a.at) || b.seq - a.seq).slice(0, 500);
    items.replaceChildren(...(all.length ? all.map(event) : [h('li', {}, 'Nothing has happened yet.')]));
  }
  state.listeners.add((what) => what === 'event' && show());
  show();
  return { sections: [h('p', { class: 'hint' }, 'The messages of the log, as they come, and peers that join or leave.'), only, items] };
}

const peerColumns = (s) => [
  { key: 'peer_id', title: 'Peer', show: (p) => peer(p.peer_id) },
  { key: 'connected', title: 'Connected', show: (p) => (p.relayed ? 'relayed' : p.connected ? 'yes' : 'no') },
  { key: 'rtt_ms', title: 'Round trip', number: true, show: (p) => ms(p.rtt_ms) },
  { key: 'distance_ms', title: 'Predicted', number: true, show: (p) => ms(p.distance_ms) },
  { key: 'coordinate.error', title: 'Error', number: true, show: (p) => (p.coordinate ? percent(p.coordinate.error) : '') },
  { key: 'wait_ms', title: 'Load', number: true, show: (p) => `${Math.round(p.wait_ms)} ms` },
  { key: 'capacity', title: 'Capacity', number: true, show: (p) => p.capacity.toFixed(2) },
  { key: 'last_seen_s', title: 'Heard', number: true, show: (p) => duration(p.last_seen_s) },
  { key: 'version', title: 'Version', show: (p) => p.version },
  { key: '', title: 'Address', width: 14, show: (p) => p.addrs[0] || '' }];

const subnetColumns = () => [
  { key: 'subnet', title: 'Subnet', width: 9, show: (s) => ask(s.subnet) },
  { key: 'state', title: 'State', width: 7, show: (s) => h('span', { class: `badge ${s.unverified ? 'warn' : s.state}` }, s.unverified ? 'in doubt' : s.state) },
  { key: 'epoch', title: 'Epoch', number: true, show: (s) => count(s.epoch) },
  { key: 'hosts', title: 'Hosts', number: true, show: (s) => count(s.hosts) },
  { key: 'pending', title: 'URLs', number: true, show: (s) => count(s.pending) },
  { key: 'predicted_ms', title: 'Predicted', number: true, show: (s) => ms(s.predicted_ms) },
  { key: 'measured_ms', title: 'Measured', number: true, show: (s) => ms(s.measured_ms) },
  { key: 'proxy.error', title: 'Error', number: true, show: (s) => (s.proxy ? percent(s.proxy.error) : '') },
  { key: 'since', title: 'Since', width: 11, show: (s) => time(s.since) },
  { key: 'why', title: 'Why here', width: 12, show: (s) => s.why || 'before what is remembered' }];

const moveColumns = (s) => [
  { key: 'at', title: 'When', width: 11, show: (m) => time(m.at) },
  { key: 'subnet', title: 'Subnet', width: 9, show: (m) => ask(m.subnet) },
  { key: 'kind', title: 'What', show: (m) => h('span', { class: `badge ${m.kind}` }, m.kind) },
  { key: 'verdict', title: 'Was it right?', width: 10, show: (m) => verdict(m.verdict) },
  { key: 'owner_ms', title: 'Owner', number: true, show: (m) => ms(m.owner_ms) },
  { key: 'here_ms', title: 'This peer', number: true, show: (m) => ms(m.here_ms) },
  { key: 'best_ms', title: 'Fastest', number: true, show: (m) => ms(m.best_ms) },
  { key: 'measured_ms', title: 'Measured', number: true, show: (m) => ms(m.measured_ms) },
  { key: 'peer', title: 'Peer', show: (m) => peer(m.peer) },
  { key: 'why', title: 'Why', width: 14, show: (m) => m.why }];

const queueColumns = (s) => [
  { key: 'host', title: 'Host', width: 11, show: (q) => ask(q.host) },
  { key: 'role', title: 'Role', show: (q) => h('span', { class: `badge ${q.role}` }, q.role) },
  { key: 'pending', title: 'URLs', number: true, show: (q) => count(q.pending) },
  { key: 'in_flight', title: 'In flight', number: true, show: (q) => count(q.in_flight) },
  { key: 'delay_ms', title: 'Next in', number: true, show: (q) => (q.delay_ms ? duration(q.delay_ms / 1000) : 'now') },
  { key: 'subnet', title: 'Subnet', width: 9, show: (q) => (q.subnet ? ask(q.subnet) : '') },
  { key: 'owner', title: 'Owner', show: (q) => peer(q.owner, s.status.peer_id) }];

// replay links a URL to its archived page, if the peer shows those.
function replay(status, url, at) {
  if (!status.replay) return url;
  const stamp = new Date(at).toISOString().replace(/\D/g, '').slice(0, 14);
  return h('a', { href: `${status.replay}web/${stamp}/${url}`, rel: 'noreferrer', target: '_blank' }, url);
}

const pageColumns = (s) => [
  { key: 'fetched_at', title: 'When', width: 7, show: (p) => time(p.fetched_at) },
  { key: 'url', title: 'URL', width: 16, show: (p) => replay(s.status, p.url, p.fetched_at) },
  { key: 'status', title: 'Status', number: true, show: (p) => p.status },
  { key: 'bytes', title: 'Size', number: true, show: (p) => bytes(p.bytes) },
  { key: 'took_ms', title: 'Took', number: true, show: (p) => ms(p.took_ms) },
  { key: 'links', title: 'Links', number: true, show: (p) => count(p.links) },
  { key: 'estimation', title: 'For', show: (p) => (p.estimation ? 'another peer' : 'this peer') },
  { key: 'title', title: 'Title', width: 10, show: (p) => p.title }];

export const views = [
  { name: 'overview', title: 'Overview', open: overview },
  { name: 'map', title: 'Map', open: async (state) => { const m = await (await import('./map.js')).map(state); return { sections: [m.section], stop: m.stop }; } },
  list('peers', 'Peers', 'Predicted is by the coordinates. Load is how long a new URL waits there; capacity is what the peer still takes.', (s) => ({ columns: peerColumns(s), sort: 'distance_ms', empty: 'No other peer is known.' })),
  list('subnets', 'Subnets', 'What this peer owns. Predicted and measured are averages of the download times of its pages.', () => ({ columns: subnetColumns(), empty: 'This peer owns no subnet yet. They come with URLs.' })),
  list('moves', 'Moves', 'The last 2,000 subnets that came and went. The times are predictions for a typical page by what is known now.', (s) => ({ columns: moveColumns(s), empty: 'No subnet has moved yet.' })),
  list('queue', 'Queue', 'Hosts with URLs that wait.', (s) => ({ columns: queueColumns(s), sort: '-pending', empty: 'No URLs wait.' })),
  list('pages', 'Pages', 'The last thousand pages that this peer fetched.', (s) => ({ columns: pageColumns(s), empty: 'No page was fetched since the start.' })),
  { name: 'search', title: 'Search', open: async (...args) => (await import('./search.js')).search(...args) },
  { name: 'gain', title: 'Strategy', open: gain },
  { name: 'limits', title: 'Limits', open: settings },
  list('denied', 'Deny list', 'What this peer does not request, and web sites that have opted out. Edit it with “peerd deny add” and “peerd deny remove”.', () => ({ columns: [{ key: 'rule', title: 'Rule', show: (r) => r.opt_out ? r.rule + ' has opted out' : r.rule }], empty: 'The list is empty.' })),
  { name: 'events', title: 'Events', open: events },
  { name: 'ask', title: 'Owner', open: answer, hidden: true },
];
