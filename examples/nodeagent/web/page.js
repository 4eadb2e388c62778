'use strict';
// The page of one node. Texts from the agent become text nodes, never markup.

const $ = id => document.getElementById(id);
const keepLog = 200000; // characters
const silence = 45000; // ms; of the state, the agent sends something every 15 s
const silent = 'the agent does not answer';

let token = '';
let state = null;
let opened = null; // { namespace, name, uid }, from the address
let detail = null;
let wake = null; // aborts what belongs to the opened pod
let logging = null; // aborts the log

// element makes one with a class and children, which are elements or texts.
function element(kind, className, ...children) {
  const node = document.createElement(kind);
  if (className) node.className = className;
  node.append(...children.filter(c => c !== null && c !== undefined && c !== ''));
  return node;
}

function ago(time) {
  const s = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  if (s < 120) return `${Math.floor(s)}s`;
  if (s < 7200) return `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

const pause = ms => new Promise(done => setTimeout(done, ms));

// ask fetches with the token; an answer that is none throws its words.
async function ask(path, signal) {
  const answer = await fetch(path, { headers: { Authorization: 'Bearer ' + token }, signal, cache: 'no-store', credentials: 'omit' });
  if (answer.ok) return answer;
  let why = `the agent answers ${answer.status}`;
  try { why = (await answer.json()).error || why; } catch { /* no JSON: the code has to do */ }
  if (answer.status === 401) lock(why);
  throw Object.assign(new Error(why), { code: answer.status });
}

// listen has a signal that ends an answer in which nothing is heard for too long: the connection to a node without power,
// or through a tunnel to an agent that hangs, stays open for hours. It ends with outer, too, if there is one.
function listen(outer) {
  const own = new AbortController(), end = () => own.abort();
  let timer;
  const heard = () => { clearTimeout(timer); timer = setTimeout(end, silence); };
  const over = () => { clearTimeout(timer); if (outer) outer.removeEventListener('abort', end); };
  if (outer) outer.addEventListener('abort', end);
  if (outer && outer.aborted) end(); else heard();
  return { signal: own.signal, heard, over };
}

// whole asks for an answer that ends.
async function whole(path, signal) {
  const line = listen(signal);
  try {
    return await (await ask(path, line.signal)).json();
  } catch (e) {
    throw line.signal.aborted ? new Error(silent) : e;
  } finally {
    line.over();
  }
}

// lock asks for the token.
function lock(why) {
  token = '';
  sessionStorage.removeItem('token');
  $('all').hidden = true;
  $('door').hidden = false;
  $('doorWhy').textContent = why;
  $('link').textContent = '';
}

function unlock(text) {
  token = text.trim().replace(/^.*#token=/, '');
  sessionStorage.setItem('token', token);
  $('door').hidden = true;
  $('doorWhy').textContent = '';
  followState();
}

function told(text, lost) {
  if ($('link').textContent !== text) $('link').textContent = text;
  $('link').className = lost ? 'lost' : '';
}

// pieces yields the text of an answer as it comes.
async function* pieces(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    yield value;
  }
}

// followState shows the node until the token turns out to be wrong.
async function followState() {
  while (token) {
    const line = listen();
    try {
      let rest = '';
      for await (const piece of pieces(await ask('api/state', line.signal))) {
        line.heard();
        const lines = (rest + piece).split('\n');
        rest = lines.pop();
        const last = lines.filter(Boolean).pop();
        if (last) { state = JSON.parse(last); show(); }
        told('live');
      }
      told('the agent has ended; trying again…', true);
    } catch (e) {
      if (!token) return;
      told(e.code && !line.signal.aborted ? e.message : silent + '; trying again…', true);
      if (line.signal.aborted && logging) { // its log is silent for the same reason
        logging.abort();
        $('logSays').textContent = silent;
      }
    } finally {
      line.over();
    }
    await pause(2000);
  }
}

function show() {
  $('all').hidden = false;
  document.title = `${state.node} – nodeagent`;
  $('node').textContent = state.node;
  $('conditions').replaceChildren(...(state.conditions || []).map(c => {
    const item = element('li', c.bad ? 'bad' : '', `${c.type}: ${c.status}`);
    if (c.message) item.title = c.message;
    return item;
  }));
  rows();
  cards('problems', state.problems, p => `${p.kind} ${p.name} waits for ${p.waitsFor}`);
  cards('refused', state.refused, p => p.name);
}

function cards(id, list, head) {
  $(id + 'Part').hidden = list.length === 0;
  $(id).replaceChildren(...list.map(p => element('li', p.severity === 'unhealthy' ? 'bad' : '',
    head(p), element('small', '', `for ${ago(p.since)}`), p.cause ? element('small', '', p.cause) : null, p.advice ? element('small', '', p.advice) : null)));
}

const address = pod => `#/${encodeURIComponent(pod.namespace)}/${encodeURIComponent(pod.name)}`;

// rows keeps the rows that are there, so that what has the focus keeps it.
function rows() {
  const body = $('pods').tBodies[0], known = new Map([...body.rows].map(r => [r.dataset.uid, r]));
  const wanted = $('filter').value.toLowerCase();
  const chosen = state.pods.filter(p => `${p.namespace}/${p.name} ${p.status}`.toLowerCase().includes(wanted));
  chosen.forEach((pod, i) => {
    let row = known.get(pod.uid);
    known.delete(pod.uid);
    if (!row) {
      row = element('tr', '', element('td', '', element('a', '', pod.name), element('small')), element('td', '', element('span', 'tone')),
        element('td', 'num'), element('td', 'num'), element('td', 'num wide'));
      row.dataset.uid = pod.uid;
      row.querySelector('a').href = address(pod);
    }
    fill(row, pod);
    if (body.rows[i] !== row) body.insertBefore(row, body.rows[i] || null);
  });
  for (const row of known.values()) row.remove();
  $('count').textContent = chosen.length === state.pods.length ? state.pods.length : `${chosen.length} of ${state.pods.length}`;
  $('none').hidden = state.pods.length > 0;
}

function fill(row, pod) {
  const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const [name, status, ready, restarts, age] = row.cells;
  set(name.querySelector('small'), pod.namespace === 'default' ? '' : pod.namespace);
  set(status.firstChild, pod.status);
  status.firstChild.className = 'tone ' + pod.tone;
  set(ready, `${pod.ready}/${pod.total}`);
  set(restarts, String(pod.restarts));
  set(age, pod.since ? ago(pod.since) : '–');
  const open = opened && opened.namespace === pod.namespace && opened.name === pod.name;
  row.className = open ? 'chosen' : '';
  if (open) name.firstChild.setAttribute('aria-current', 'true'); else name.firstChild.removeAttribute('aria-current');
}

// route opens the pod that the address names, or closes it.
function route() {
  const [, namespace, name] = location.hash.startsWith('#/') ? location.hash.split('/').map(decodeURIComponent) : [];
  if (wake) wake.abort();
  if (logging) logging.abort();
  const before = opened;
  opened = namespace && name ? { namespace, name } : null;
  detail = null;
  $('pod').hidden = !opened;
  $('all').classList.toggle('open', Boolean(opened));
  if (state) rows();
  if (!opened) {
    const link = before && document.querySelector(`#pods a[href="${CSS.escape(address(before))}"]`);
    if (link) link.focus();
    return;
  }
  $('podTitle').textContent = name;
  for (const id of ['podSays', 'steps', 'log', 'logSays', 'container', 'probes', 'timeline']) $(id).replaceChildren();
  $('pod').focus({ preventScroll: true });
  if (matchMedia('(max-width: 64rem)').matches) $('pod').scrollIntoView();
  $('usagePart').hidden = true;
  wake = new AbortController();
  followPod(wake.signal);
  followUsage(wake.signal);
}

async function followPod(signal) {
  while (!signal.aborted) {
    if (!document.hidden && token) {
      try {
        detail = await whole(`api/pods/${encodeURIComponent(opened.namespace)}/${encodeURIComponent(opened.name)}`, signal);
        showPod();
      } catch (e) {
        if (signal.aborted) return;
        $('podSays').replaceChildren(element('span', 'bad', e.message));
      }
    }
    await pause(2000);
  }
}

// followUsage measures until the runtime says that it cannot.
async function followUsage(signal) {
  const samples = new Map();
  while (!signal.aborted) {
    if (!document.hidden && detail) {
      try {
        addUsage(samples, await whole(`api/usage/${encodeURIComponent(detail.namespace)}/${encodeURIComponent(detail.uid)}`, signal));
        if (signal.aborted) return;
        $('usagePart').hidden = samples.size === 0;
        $('usage').replaceChildren(...usageItems(samples));
      } catch (e) {
        if (e.code === 501 || signal.aborted) return;
      }
    }
    await pause(detail ? 5000 : 200);
  }
}

function showPod() {
  const { row, worker } = detail;
  $('podSays').replaceChildren(element('span', 'tone ' + row.tone, row.status), ` ready ${row.ready}/${row.total}, restarts ${row.restarts}`,
    row.ip ? `, address ${row.ip}` : '', ...[worker && worker.waitingFor && `Waits for: ${worker.waitingFor}`, detail.reason, detail.message, detail.held,
      detail.unreadable, detail.checkpoint, worker && worker.lastError].filter(Boolean).map(t => element('div', 'dim', t)));
  draw();
  $('stepCount').textContent = detail.dropped ? `the newest ${detail.steps.length}` : detail.steps.length;
  if ($('stepsPart').open) listSteps();
  $('probesPart').hidden = !(detail.probes || []).length;
  $('probes').replaceChildren(...(detail.probes || []).map(p => element('li', p.result === 'Success' ? 'good' : p.result === 'Failure' ? 'bad' : '',
    `${p.container} ${p.kind.toLowerCase()}: ${p.result}`,
    element('small', '', !p.lastRun ? 'has not run' : p.broken ? `could not be executed, ${ago(p.lastRun)} ago` : `${p.lastResult || 'ran'} ${p.runLength || 1} times in a row, ${ago(p.lastRun)} ago`),
    p.held ? element('small', '', p.held) : null, p.lastOutput ? element('small', '', p.lastOutput) : null)));
  containers();
}

function draw() { if (detail) drawTimeline($('timeline'), detail, Number($('span').value)); }

function listSteps() {
  $('steps').replaceChildren(...[...detail.steps].reverse().map(s => {
    const time = element('time', '', new Date(s.at).toLocaleTimeString([], { hour12: false }));
    time.dateTime = s.at;
    return element('li', '', time, element('span', s.state === 'failed' || s.state === 'warning' ? 'bad' : '', `${s.lane || 'pod'}: ${stateText(s)}`));
  }));
}

// containers offers the containers, and takes up the log of one that has started again.
function containers() {
  const list = detail.containers || [], select = $('container');
  if (list.map(c => c.name).join() !== [...select.options].map(o => o.value).join()) {
    const before = select.value;
    select.replaceChildren(...list.map(c => new Option(c.name)));
    const first = list.find(c => c.state === 'running') || list[list.length - 1];
    if (first) select.value = list.some(c => c.name === before) ? before : first.name;
  }
  const now = list.find(c => c.name === select.value);
  const sign = now && `${detail.uid} ${now.name} ${now.restartCount} ${now.state} ${$('previous').checked}`;
  if (now && (!logging || logging.signal.aborted || (logging.over && logging.sign !== sign))) followLog(now.name, sign);
}

async function followLog(name, sign) {
  if (logging) logging.abort();
  const mine = logging = Object.assign(new AbortController(), { sign, over: false });
  const previous = $('previous').checked;
  let text = '', painted = true;
  const paint = () => {
    painted = true;
    if (mine.signal.aborted) return;
    const log = $('log'), atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 30;
    log.textContent = text;
    if (atEnd) log.scrollTop = log.scrollHeight;
  };
  try {
    $('logSays').textContent = 'reading…';
    const path = `api/logs/${encodeURIComponent(detail.namespace)}/${encodeURIComponent(detail.uid)}/${encodeURIComponent(name)}`;
    const answer = await ask(`${path}?tail=500&limit=${previous ? keepLog : ''}&follow=${!previous}&previous=${previous}`, mine.signal);
    $('logSays').textContent = previous ? '' : 'following';
    for await (const piece of pieces(answer)) {
      text = (text + piece.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, '')).slice(-keepLog);
      if (painted) { painted = false; setTimeout(paint, 150); }
    }
    paint();
    $('logSays').textContent = text ? 'end of the log' : 'the log is empty';
  } catch (e) {
    if (mine.signal.aborted) return;
    paint();
    $('logSays').textContent = e.message;
  }
  mine.over = true;
}

async function showPlan() {
  if (!$('cleanup').open) return;
  const into = $('plan');
  into.textContent = 'reading…';
  try {
    const plan = await whole('api/cleanup?o=json');
    const list = actions => element('ul', 'cards', ...actions.map(a => element('li', a.forbidden ? 'good' : '', `${a.kind} ${a.object}`, element('small', '', a.reason || a.step),
      a.forbidden ? element('small', '', a.forbidden) : null)));
    const goes = plan.actions.filter(a => !a.forbidden), stays = plan.actions.filter(a => a.forbidden);
    into.replaceChildren(goes.length ? list(goes) : element('p', 'dim', 'Nothing would be.'));
    if (stays.length) into.append(element('details', '', element('summary', '', `What stays, and why (${stays.length})`), list(stays)));
  } catch (e) {
    into.textContent = e.message;
  }
}

// step moves the focus among the pods.
function step(by) {
  const links = [...document.querySelectorAll('#pods a')];
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by];
  if (next) next.focus();
}

document.addEventListener('keydown', e => {
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  const typing = ['INPUT', 'SELECT', 'TEXTAREA'].includes(e.target.tagName);
  if (e.key === 'Escape' && opened) location.hash = '#/';
  else if (e.key === '/' && !typing) $('filter').focus();
  else if (['ArrowDown', 'ArrowUp'].includes(e.key) && (!typing || e.target === $('filter')) && e.target !== $('log')) step(e.key === 'ArrowDown' ? 1 : -1);
  else return;
  e.preventDefault();
});
document.querySelector('.skip').addEventListener('click', e => { e.preventDefault(); $('pods').focus(); });
$('door').addEventListener('submit', e => { e.preventDefault(); const key = $('key').value; $('key').value = ''; unlock(key); });
$('filter').addEventListener('input', () => state && rows());
$('span').addEventListener('change', draw);
$('stepsPart').addEventListener('toggle', () => detail && listSteps());
$('cleanup').addEventListener('toggle', showPlan);
for (const id of ['container', 'previous']) $(id).addEventListener('change', () => { if (logging) logging.abort(); $('log').textContent = ''; if (detail) containers(); });
window.addEventListener('resize', draw);
window.addEventListener('hashchange', route);
setInterval(() => state && rows(), 5000); // ages

const given = location.hash.match(/^#token=(.+)$/);
if (given) history.replaceState(null, '', '#/'); // out of sight, and out of the history
token = given ? given[1] : sessionStorage.getItem('token') || '';
if (token) unlock(token); else lock('');
route();
