// Login, navigation and the stream of events.
import { h, answer, fetchJSON } from './dom.js';
import { healthKind, views } from './views.js';

const main = document.getElementById('main');
const health = document.getElementById('health');
const state = { status: null, before: null, recent: [], listeners: new Set() };
let current = null;

function loggedOut(text) {
  health.className = 'bad';
  health.textContent = 'Not logged in';
  main.replaceChildren(h('section', { class: 'card narrow' }, h('h2', {}, 'Log in'),
    h('p', {}, text), h('p', {}, 'Run this in a terminal, and open the address that it prints:'),
    h('pre', {}, 'peerd dashboard --home DIR')));
}

// follow listens to the events of the peer. The browser connects again by itself.
function follow() {
  const events = new EventSource('/v1/events');
  events.addEventListener('status', (e) => {
    state.before = state.status;
    state.status = { ...JSON.parse(e.data), received: Date.now() };
    tell('status');
    showHealth();
  });
  for (const kind of ['event', 'missed']) {
    events.addEventListener(kind, (e) => {
      const v = JSON.parse(e.data);
      if (kind === 'missed') Object.assign(v, { text: `${v.events} events were missed`, kind: 'other', level: 'WARN', at: new Date().toISOString() });
      state.recent.push(v);
      if (state.recent.length > 500) state.recent.shift();
      tell('event');
    });
  }
  events.addEventListener('error', () => {
    health.className = 'bad';
    health.textContent = 'The peer does not answer';
    if (events.readyState === EventSource.CLOSED) { // refused, not cut
      fetchJSON('/v1/alive').then(() => setTimeout(follow, 5000), (err) => {
        if (err.status === 401) loggedOut('The session has ended: the peer was restarted, or a day is over.');
        else setTimeout(follow, 5000);
      });
    }
  });
  addEventListener('pagehide', () => events.close());
}

function tell(what) {
  for (const f of state.listeners) f(what);
}

// showHealth shows what the peer says about itself. The advice is in the overview.
function showHealth() {
  const { state: name, why, do: advice } = state.status.health;
  health.className = healthKind(name);
  health.textContent = name.charAt(0).toUpperCase() + name.slice(1) + (why ? `: ${why}` : '');
  health.title = advice;
}

// open shows the view that the fragment names, as in #subnets or #ask/example.org.
async function open() {
  const [name, ...rest] = location.hash.slice(1).split('/');
  const view = views.find((v) => v.name === name) || views[0];
  current?.stop?.();
  state.listeners.clear();
  const mine = current = {};
  for (const a of document.querySelectorAll('nav a')) {
    if (a.hash === `#${view.name}`) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  document.title = `${view.title} – peerd`;
  let shown;
  try {
    if (view !== views[0]) await state.ready; // the overview reads the rest meanwhile
    shown = await view.open(state, decodeURIComponent(rest.join('/')));
  } catch (err) {
    if (err.status === 401) {
      loggedOut('This browser has no session.');
      return false;
    }
    shown = { sections: [h('p', { class: 'bad' }, `The peer did not answer: ${err.message}`)] };
  }
  if (mine !== current) {
    shown.stop?.();
    return true;
  }
  current = shown;
  main.replaceChildren(h('h2', {}, view.title), ...shown.sections);
  shown.started?.();
  main.dataset.view = view.name; // tests wait for it
  performance.mark('shown');
  return true;
}

async function start() {
  document.getElementById('views').append(...views.filter((v) => !v.hidden).map((v) =>
    h('li', {}, h('a', { href: `#${v.name}` }, v.title))));
  document.getElementById('ask').addEventListener('submit', (e) => {
    e.preventDefault();
    const of = document.getElementById('ask-host').value.trim();
    if (of) location.hash = `#ask/${encodeURIComponent(of)}`;
  });
  try {
    const r = await window.early.login;
    if (r) await answer(r);
    state.ready = fetchJSON('/v1/status').then(({ body }) => {
      state.status = { ...body, received: Date.now() };
      showHealth();
    });
    const first = open();
    await state.ready;
    addEventListener('hashchange', () => open().then(() =>
      (main.querySelector('[autofocus]') ?? main).focus({ preventScroll: true })));
    if (await first) follow();
  } catch (err) {
    loggedOut(err.status === 401 ? err.message : `The peer did not answer: ${err.message}`);
  }
}

start();
