'use strict';
// Draws a pod's steps: a lane for each container and one for the pod, the last for what the engine does with
// it; a bar for each state, a mark for each event.

const svgNamespace = 'http://www.w3.org/2000/svg';
const laneHeight = 44, barTop = 20, barHeight = 18, axisHeight = 24;

function shape(kind, attributes, text) {
  const node = document.createElementNS(svgNamespace, kind);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function isEvent(step) { return step.state === 'event' || step.state === 'warning'; }

// stateClass is how a state is painted, of a container, of a pod (its phases) and of the engine.
function stateClass(state) {
  return { Pending: 'waiting', Running: 'ready', Succeeded: 'done', Failed: 'failed', Unknown: 'waiting', terminated: 'done', finished: 'done', setup: 'running',
    running: 'running', ready: 'ready', done: 'done', failed: 'failed' }[state] || 'waiting';
}

// stateText says a step in words.
function stateText(step) {
  const times = step.count > 1 ? ` (${step.count} times)` : '';
  const code = step.state === 'failed' ? `, code ${step.exit}` : '';
  const head = isEvent(step) ? step.reason : [step.state + code, step.reason].filter(Boolean).join(': ');
  return head + times + (step.message ? ' — ' + step.message : '');
}

// engineSteps are the steps of the engine with the pod, without those that stay in a state.
function engineSteps(detail) {
  const all = ((detail.worker || {}).transitions || []).map(t => ({ at: t.at, lane: 'engine', state: t.to, reason: '', message: t.reason }));
  return all.filter((t, i) => i === 0 || t.state !== all[i - 1].state);
}

// lanesOf sorts the steps into lanes: the pod first, then the containers in their order, then others.
function lanesOf(steps, containers) {
  const lanes = new Map([['', []]]);
  for (const name of containers) lanes.set(name, []);
  for (const step of steps) {
    const name = step.lane || '';
    if (!lanes.has(name)) lanes.set(name, []);
    lanes.get(name).push(step);
  }
  return lanes;
}

// tickStep is the distance of the axis' ticks, in seconds, of which a length has at most most.
function tickStep(seconds, most) {
  for (const step of [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400]) {
    if (seconds / step <= most) return step;
  }
  return 86400 * Math.ceil(seconds / 86400 / most);
}

function axis(svg, begin, end, x, height, width) {
  const step = tickStep((end - begin) / 1000, Math.max(2, Math.floor(width / 90)));
  const shift = new Date(end).getTimezoneOffset() * 60000;
  const first = Math.ceil((begin - shift) / 1000 / step) * step * 1000 + shift;
  for (let at = first; at <= end; at += step * 1000) {
    const text = new Date(at).toLocaleTimeString([], step < 60 ? { hour12: false } : { hour: '2-digit', minute: '2-digit', hour12: false });
    svg.append(shape('line', { x1: x(at), x2: x(at), y1: 0, y2: height - axisHeight + 4, class: 'rule' }));
    const anchor = x(at) < 30 ? 'start' : x(at) > width - 30 ? 'end' : 'middle';
    svg.append(shape('text', { x: x(at), y: height - 7, 'text-anchor': anchor, class: 'tick' }, text));
  }
}

function bars(svg, states, top, x, begin, end) {
  states.forEach((step, i) => {
    const from = Math.max(Date.parse(step.at), begin);
    const to = i + 1 < states.length ? Date.parse(states[i + 1].at) : end;
    if (to < begin) return;
    const left = x(from), wide = Math.max(x(to) - left, 2);
    const bar = shape('rect', { x: left, y: top + barTop, width: wide, height: barHeight, rx: 2, class: stateClass(step.state) });
    bar.append(shape('title', {}, `${new Date(step.at).toLocaleString()}: ${stateText(step)}`));
    svg.append(bar);
    const word = step.reason || step.state;
    if (wide > word.length * 7 + 10) svg.append(shape('text', { x: left + 5, y: top + barTop + 13, class: 'inside' }, word));
  });
}

function marks(svg, events, top, x, begin) {
  for (const step of events) {
    const at = Date.parse(step.at);
    if (at < begin) continue;
    const mark = shape('path', { d: `M${x(at)} ${top + barTop}l-4 -7h8z`, class: step.state === 'warning' ? 'mark warning' : 'mark' });
    mark.append(shape('title', {}, `${new Date(at).toLocaleString()}: ${stateText(step)}`));
    svg.append(mark);
  }
}

// drawTimeline draws what detail has of the last seconds, all of it if that is 0.
function drawTimeline(svg, detail, seconds) {
  const all = detail.steps.concat(engineSteps(detail));
  const lanes = lanesOf(all, (detail.containers || []).map(c => c.name));
  const width = Math.max(svg.clientWidth, 200), height = lanes.size * laneHeight + axisHeight;
  const end = Date.parse(detail.now);
  const earliest = all.reduce((least, s) => Math.min(least, Date.parse(s.at)), end - 1000);
  const begin = seconds > 0 ? Math.max(end - seconds * 1000, earliest) : earliest;
  const x = at => 4 + (width - 8) * (at - begin) / (end - begin);
  svg.replaceChildren();
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('height', height);
  axis(svg, begin, end, x, height, width);
  let top = 0;
  for (const [name, steps] of lanes) {
    const events = steps.filter(isEvent), states = steps.filter(s => !isEvent(s));
    svg.append(shape('text', { x: 4, y: top + 10 }, name || 'pod'));
    bars(svg, states, top, x, begin, end);
    marks(svg, events, top, x, begin);
    top += laneHeight;
  }
}
