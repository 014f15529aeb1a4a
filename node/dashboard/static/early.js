// Logs in, and requests what the first view shows, while the other files are loaded and drawn. It is no
// module, because those run after the page was parsed and perhaps drawn.
'use strict';
window.early = (() => {
  const options = { credentials: 'same-origin', cache: 'no-store' };
  const code = /^#code=([0-9a-f]{64})$/.exec(location.hash)?.[1];
  if (code) history.replaceState(null, '', location.pathname); // the code is not kept in the URL
  // login is the response to the exchange of the code for a cookie; null without a code.
  const login = code ? fetch('/v1/login', { ...options, method: 'POST', body: JSON.stringify({ code }) }) : Promise.resolve(null);
  const answers = new Map();
  const overview = location.hash === '' || location.hash === '#overview';
  for (const path of ['/v1/status', ...(overview ? ['/v1/limits', '/v1/disk', '/v1/history'] : [])]) {
    const answer = login.then((r) => (!r || r.ok ? fetch(path, options) : new Response('{}', { status: r.status })));
    answer.catch(() => {}); // who takes it reports it
    answers.set(path, answer);
  }
  // take returns the response to a path if it was requested, once.
  const take = (path) => {
    const answer = answers.get(path);
    answers.delete(path);
    return answer;
  };
  return { login, take };
})();
