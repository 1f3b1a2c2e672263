// A line of commits a minute.

import { empty, h, number } from './dom.js'

const minutes = 60

/** The line of the last hour, from times in milliseconds, newest first; a shorter one if older ones are missing. */
export function spark(times, hasAll) {
  if (!times.length) return empty('No commits yet.')
  const age = time => Math.max(0, Math.floor((Date.now() - time) / 60_000))
  const oldest = age(times.at(-1))
  const span = hasAll || oldest >= minutes ? minutes : Math.max(2, oldest)
  const counts = new Array(span).fill(0)
  for (const time of times) if (age(time) < span) counts[span - 1 - age(time)] += 1
  const most = Math.max(...counts)
  const point = (value, index) =>
    `${(index * 300 / (span - 1)).toFixed(1)},${(38 - 36 * value / Math.max(1, most)).toFixed(1)}`
  const points = counts.map(point).join(' ')
  const now = counts.at(-1)
  const label = `At most ${number(most)} commits a minute in the last ${span} minutes, now ${number(now)}`
  const axis = [`${span} min ago`, `most ${number(most)}`, `now ${number(now)}`].map(text => h('span', {}, text))
  return h('div', {}, h('svg:svg', { class: 'spark', viewBox: '0 0 300 40', preserveAspectRatio: 'none', role: 'img',
    'aria-label': label }, h('svg:polygon', { points: `0,40 ${points} 300,40` }), h('svg:polyline', { points })),
  h('div', { class: 'axis num', 'aria-hidden': 'true' }, axis))
}
