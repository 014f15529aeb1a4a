// The search in the pages of all peers.
import { h, fetchJSON, count, peer, time } from './dom.js';

const pageHits = 10;
const maxHits = 100; // that the peer lets a search reach

// search returns a view with the hits of a query; without one, with an empty form.
export async function search(state, query) {
  const input = h('input', { type: 'search', name: 'q', value: query, 'aria-label': 'Words to search for',
    placeholder: 'vacuum tables site:example.org', autocomplete: 'off', maxlength: 1000, autofocus: !query });
  const form = h('form', { class: 'find', role: 'search', 'aria-label': 'Pages', submit: (e) => {
    e.preventDefault();
    const q = input.value.trim();
    if (q === query) restart();
    else location.hash = `#search/${encodeURIComponent(q)}`;
  } }, input, h('button', {}, 'Search'));
  const told = h('p', { class: 'told', role: 'status', 'aria-live': 'polite' });
  const partial = h('p', { class: 'note warn', id: 'partial', hidden: true });
  const hits = h('ol', { class: 'hits', id: 'hits', 'aria-label': 'Hits' });
  const more = h('button', { type: 'button', hidden: true, click: () => load() }, 'More');
  let running = null, shown = 0;

  function restart() {
    shown = 0;
    hits.replaceChildren();
    load();
  }

  async function load() {
    running?.abort();
    if (!query) return;
    const mine = running = new AbortController();
    told.textContent = 'Asking all peers…';
    more.hidden = true;
    const limit = Math.min(pageHits, maxHits - shown);
    try {
      const { body: r } = await fetchJSON(`/v1/search?${new URLSearchParams({ q: query, offset: shown, limit })}`,
        { signal: mine.signal });
      add(r, limit);
    } catch (err) {
      if (mine.signal.aborted) return;
      told.textContent = err.status === 400 ? err.message : `The peer did not answer: ${err.message}`;
    }
  }

  function add(r, limit) {
    const items = r.hits.map((x) => hit(x, state.status.peer_id));
    hits.append(...items);
    if (shown > 0) items[0]?.querySelector('a')?.focus(); // the button has moved away
    shown += r.hits.length;
    told.textContent = shown === 0 ? 'No page was found.'
      : `${count(shown)} of about ${count(r.total)} hits, from ${count(r.peers_answered)} peer${r.peers_answered === 1 ? '' : 's'}`
        + `${r.peers_copied ? ` and copies of absent ones: ${count(r.peers_copied)}` : ''}`
        + `${r.peers_without_index ? `; without an index: ${count(r.peers_without_index)}` : ''}`;
    partial.hidden = !r.partial;
    partial.textContent = 'The result is partial: there may be other or better hits. '
      + (r.peers_failed ? `Peers that did not answer: ${count(r.peers_failed)}.` : 'A peer did not look at all of its pages.');
    more.hidden = r.hits.length < limit || shown >= maxHits || shown >= r.total;
  }

  return {
    sections: [h('p', { class: 'hint' }, 'Words in the pages of all peers. “two words” in quotes stand next to each other; also: '
      + '-word, site:example.org, filetype:text, lang:de, date:2026-01... All peers are told the query.'),
    form, told, partial, hits, more],
    started: () => { if (query) restart(); },
    stop: () => running?.abort(),
  };
}

// hit shows a page. Its address is a link only if it is one of the web.
function hit(x, self) {
  const title = x.title || x.url;
  const web = /^https?:\/\//.test(x.url);
  return h('li', {}, h('h3', {}, web ? h('a', { href: x.url, rel: 'noreferrer noopener', target: '_blank' }, title) : title),
    h('p', { class: 'from' }, x.url, ` · ${time(x.fetched_at)} · `, peer(x.peer, self)),
    x.snippet ? h('p', {}, marked(x.snippet, x.marks)) : null);
}

// marked returns a text with its marks, which are places in its UTF-8 form.
function marked(text, marks) {
  const all = new TextEncoder().encode(text), parts = [];
  const part = (from, to) => new TextDecoder().decode(all.subarray(from, to));
  let at = 0;
  for (const [from, to] of marks) {
    if (from < at || to < from || to > all.length) continue;
    parts.push(part(at, from), h('mark', {}, part(from, to)));
    at = to;
  }
  return [...parts, part(at)];
}
