// Keeps a page up to date: hears what of its content has changed, and changes that alone.
// A page works without it.
'use strict';
(() => {
  const shown = document.getElementById('matter');
  const box = document.getElementById('live');
  if (!shown || !box || !window.EventSource) return;
  const button = box.querySelector('button');
  const banner = document.getElementById('away');
  const told = document.getElementById('told');
  const still = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
  const KEY = 'firetime.live';
  let source = null, retry = 0, timer = 0, parts = [], lost = null, moved = 0;

  // Near instants, as the server tells them.
  const both = (a, au, b, bu) => (b ? `${a} ${au} ${b} ${bu}` : `${a} ${au}`);
  const span = (ms) => {
    const s = Math.floor(ms / 1000);
    if (s < 1) return `${Math.max(0, Math.floor(ms))} ms`;
    if (s < 10) return `${s}.${Math.floor((ms % 1000) / 100)} s`;
    if (s < 60) return `${s} s`;
    if (s < 600) return both(Math.floor(s / 60), 'min', s % 60, 's');
    return `${Math.floor(s / 60)} min`;
  };
  const tell = (time) => {
    const away = Date.parse(time.dateTime) - (Date.now() - moved);
    if (Math.abs(away) >= 3600000) return;
    // Tenths would flicker: whole seconds do.
    const whole = Math.abs(away) < 1000 ? 1000 : Math.floor(Math.abs(away) / 1000) * 1000;
    const said = span(whole).replace('.0 s', ' s');
    const late = away < -5000 ? `overdue by ${said}` : 'now';
    const past = time.dataset.near === 'next' ? late : `${said} ago`;
    const text = away < 0 ? past : `in ${said}`;
    if (time.textContent !== text) time.textContent = text;
  };
  const tick = () => {
    if (!document.hidden && on()) shown.querySelectorAll('time[data-near]').forEach(tell);
  };
  setInterval(tick, still ? 10000 : 1000);

  // What stands for the same thing before and after.
  const key = (node) => {
    if (node.nodeType !== 1) return node.nodeName;
    const link = node.nodeName === 'TR' ? node.querySelector('a[href]') : null;
    return `${node.nodeName} ${node.id || (link ? link.getAttribute('href') : '')}`;
  };
  const isKept = (node) => node.nodeName === 'FORM' && (node.dataset.kept || node.contains(document.activeElement));
  const change = (from, to) => {
    if (from.nodeType !== 1) {
      if (from.data !== to.data) from.data = to.data;
      return;
    }
    if (isKept(from)) return;
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && !(name === 'open' && from.nodeName === 'DETAILS')) from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (name !== 'open' && from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
    if (from.nodeName === 'TIME' && from.dataset.near) return;
    let at = from.firstChild;
    for (const wanted of [...to.childNodes]) {
      let found = at;
      while (found && key(found) !== key(wanted)) found = found.nextSibling;
      if (!found) {
        from.insertBefore(wanted, at);
        continue;
      }
      if (found === at) at = at.nextSibling;
      else from.insertBefore(found, at);
      change(found, wanted);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };
  const show = () => {
    const page = document.createElement('template');
    page.innerHTML = `<div id="matter">${parts.join('')}</div>`;
    const token = box.dataset.token;
    page.content.querySelectorAll('input[name=token]').forEach((input) => input.setAttribute('value', token));
    const heading = () => (shown.querySelector('h1') || {}).textContent;
    const before = heading();
    change(shown, page.content.firstChild);
    if (heading() !== before) told.textContent = heading();
    tick();
  };

  const on = () => button.getAttribute('aria-pressed') === 'true';
  const clock = (at) => at.toISOString().slice(11, 19);
  const say = (state, words) => {
    box.dataset.state = state;
    button.textContent = words;
  };
  const away = (why) => {
    lost = lost || new Date();
    banner.textContent = `${why} The page shows what was known at ${clock(lost)} UTC.`;
    banner.hidden = false;
    say('away', 'not live');
  };
  const back = () => {
    if (lost) told.textContent = 'The page is up to date again.';
    lost = null;
    banner.hidden = true;
    say('on', 'live');
  };
  const stop = () => {
    clearTimeout(timer);
    if (source) source.close();
    source = null;
  };
  const start = () => {
    stop();
    if (!on() || document.hidden) return;
    parts = [];
    source = new EventSource(`${box.dataset.root}live?of=${encodeURIComponent(box.dataset.of)}`);
    source.addEventListener('parts', (event) => {
      const news = JSON.parse(event.data);
      retry = 0;
      parts.length = news.count;
      for (const [place, html] of news.parts) parts[place] = html;
      back();
      show();
    });
    source.addEventListener('away', (event) => {
      retry = 0;
      away(JSON.parse(event.data).said);
    });
    // Whoever has lost their login sees no more; what they have begun to write stays.
    source.addEventListener('out', (event) => {
      stop();
      away(JSON.parse(event.data).said);
    });
    source.onerror = () => {
      stop();
      // A stream that was open ends from time to time, to be asked for anew.
      if (retry > 0) away('The console does not answer.');
      const wait = Math.min(30000, 1000 * 2 ** retry) * (0.75 + Math.random() / 2);
      retry += 1;
      timer = setTimeout(start, wait);
    };
  };
  const press = (is) => {
    button.setAttribute('aria-pressed', String(is));
    try { localStorage.setItem(KEY, is ? 'on' : 'off'); } catch (_) { /* It is only forgotten. */ }
    banner.hidden = true;
    lost = null;
    say(is ? 'on' : 'off', is ? 'live' : 'paused');
    start();
  };

  shown.addEventListener('input', (event) => {
    const form = event.target.closest('form');
    if (form) form.dataset.kept = 'yes';
  });
  button.addEventListener('click', () => press(!on()));
  document.addEventListener('visibilitychange', start);
  window.addEventListener('pagehide', stop);
  window.addEventListener('pageshow', (event) => event.persisted && start());
  // A browser's clock may be wrong: the page as it came says how far.
  const first = [...shown.querySelectorAll('time[data-near]')].find((time) => / s\b/.test(time.textContent));
  if (first) {
    let ms = 0;
    for (const [, count, unit] of first.textContent.matchAll(/([\d.]+) (s|min)/g)) ms += count * (unit === 's' ? 1000 : 60000);
    const off = Date.now() - Date.parse(first.dateTime) - (first.textContent.startsWith('in ') ? -ms : ms);
    if (Math.abs(off) > 5000) moved = off;
  }
  let wanted = 'on';
  try { wanted = localStorage.getItem(KEY) || 'on'; } catch (_) { /* Nobody has said otherwise. */ }
  box.hidden = false;
  if (wanted === 'off') press(false);
  else start();
})();
