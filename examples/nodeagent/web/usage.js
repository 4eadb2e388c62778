'use strict';
// CPU and memory of the opened pod's containers. The samples are kept here alone, for as long as the pod is open.

const keptSamples = 90;

// addUsage adds a measurement to the samples, a list for each container.
function addUsage(samples, measured) {
  for (const one of measured) {
    if (!samples.has(one.name)) samples.set(one.name, []);
    const list = samples.get(one.name), last = list[list.length - 1];
    const at = Date.parse(one.at);
    if (last && at <= last.at) continue; // the runtime measures less often than it is asked
    if (last && one.cpu < last.total) list.length = 0; // it has started again
    const before = list[list.length - 1];
    list.push({ at, total: one.cpu, memory: one.memory, cpu: before ? (one.cpu - before.total) / (at - before.at) / 1e6 : null });
    if (list.length > keptSamples) list.shift();
  }
  for (const name of [...samples.keys()]) if (!measured.some(one => one.name === name)) samples.delete(name);
}

// sparkline is a small picture of numbers, from 0 to the largest.
function sparkline(numbers, label) {
  const width = 160, height = 30, most = Math.max(...numbers, 1e-9);
  const svg = shape('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label });
  const points = numbers.map((n, i) => `${(i * width / Math.max(numbers.length - 1, 1)).toFixed(1)},${(height - 2 - n / most * (height - 4)).toFixed(1)}`);
  svg.append(shape('polyline', { points: points.join(' ') }));
  return svg;
}

function bytes(n) {
  return n < 1048576 ? `${(n / 1024).toFixed(0)} KiB` : n < 1073741824 ? `${(n / 1048576).toFixed(1)} MiB` : `${(n / 1073741824).toFixed(2)} GiB`;
}

const milli = cores => `${(cores * 1000).toFixed(0)}m`;

// usageItems are the list items of the samples.
function usageItems(samples) {
  return [...samples].map(([name, list]) => {
    const cpu = list.map(s => s.cpu).filter(n => n !== null), memory = list.map(s => s.memory);
    const item = document.createElement('li');
    const cell = (text, numbers) => {
      const box = document.createElement('div');
      box.append(document.createElement('small'), sparkline(numbers, `${name}: ${text}`));
      box.firstChild.textContent = text;
      return box;
    };
    const title = document.createElement('div');
    title.textContent = name;
    item.append(title, cell(cpu.length ? `CPU ${milli(cpu[cpu.length - 1])}, most ${milli(Math.max(...cpu))}` : 'CPU …', cpu),
      cell(`memory ${bytes(memory[memory.length - 1])}, most ${bytes(Math.max(...memory))}`, memory));
    return item;
  });
}
